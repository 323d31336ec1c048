/** Checks that every published schema is valid JSON Schema 2020-12, as OpenAPI 3.1 and MCP require. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'

test.each(OPERATIONS.map((operation) => [operation.name, operation] as const))(
  '%s: input and output: are valid schemas',
  (_name, { input, output }) => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    for (const schema of [input, output]) {
      const plain = JSON.parse(JSON.stringify(schema))
      expect(ajv.validateSchema(plain), ajv.errorsText()).toBe(true)
      expect(() => ajv.compile(plain)).not.toThrow()
    }
  },
)

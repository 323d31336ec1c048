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

/** Every object below a schema, with its pointer. */
function* objectsIn(schema: unknown, pointer = ''): Generator<readonly [string, Record<string, unknown>]> {
  if (typeof schema !== 'object' || schema === null) return
  yield [pointer, schema as Record<string, unknown>]
  for (const [name, member] of Object.entries(schema)) yield* objectsIn(member, `${pointer}/${name}`)
}

/** Names that the pattern does not match have any value, unless others are refused: `^` matches every name. */
function leavesNamesUnchecked({ patternProperties, additionalProperties }: Record<string, unknown>): boolean {
  const checked = Object.entries((patternProperties ?? {}) as Record<string, object>)
  const isChecking = checked.some(([pattern, value]) => pattern !== '^' && Object.keys(value).length > 0)
  return isChecking && additionalProperties !== false
}

test('inputs: members that are named by a pattern: members of other names are refused', () => {
  const unchecked = OPERATIONS.flatMap(({ name, input }) =>
    [...objectsIn(input)]
      .filter(([, schema]) => leavesNamesUnchecked(schema))
      .map(([pointer]) => `${name}${pointer}`),
  )
  expect(unchecked).toEqual([])
})

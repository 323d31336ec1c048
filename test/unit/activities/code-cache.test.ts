/** Which versions of functions a worker keeps. */

import { expect, test } from 'vitest'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { CodeCache } from '../../../src/activities/function/code-cache.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'

/** Reads three versions with such a schema, then the first one, whose code the database does not return again. */
async function readAgain(schemaChars: number): Promise<unknown> {
  const input_schema = { description: 'x'.repeat(schemaChars) }
  const version = { compiled: 'export {}', input_schema, output_schema: null, has_maps: false }
  const scopeWith = (row: object) =>
    ({
      ref: { tenantId: 'ten_1', workspaceId: 'ws_1' },
      row: async () => ({ config: {}, sealed: null, ...row }),
    }) as unknown as WorkspaceScope
  const cache = new CodeCache()
  const read = (n: number, row: object) => cache.read(scopeWith(row), { id: 'fn_1', name: 'one', version: n })
  for (const n of [1, 2, 3]) await read(n, { version })
  return read(1, { version: null }).then(({ version: kept }) => kept === (version as unknown))
}

test('small versions: are kept', async () => {
  expect(await readAgain(10)).toBe(true)
})

test('versions whose schemas exceed the limit together: the oldest is dropped', async () => {
  await expect(readAgain(FUNCTION_LIMITS.codeCacheBytes * 0.4)).rejects.toThrow('a version must have code')
})

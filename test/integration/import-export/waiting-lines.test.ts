/** Lines of an import that wait for later ones: what the report says of them, and in which order they are stored. */

import { beforeAll, expect, test } from 'vitest'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})

/** A collection whose documents refer to one another. */
async function declareTree({ workspaceId, operator: as }: TestWorkspace, more: object = {}): Promise<string> {
  const name = unique('tree')
  const body = {
    ...{ workspace_id: workspaceId, collection: name, store: 'relational' },
    schema: {
      properties: {
        ...{ n: { type: 'integer' }, email: { type: 'string' } },
        parent: { type: 'string', format: 'uuid' },
      },
    },
    references: [{ field: 'parent', collection: name, as: 'up' }],
    ...more,
  }
  const made = await call('POST', '/v1/schemas', { as, body })
  expect([made.status, made.body]).toMatchObject([201, {}])
  return name
}

/** Ids that grow. */
const ids = (count: number) =>
  Array.from({ length: count }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`)

test('import that ends while lines wait: the lines that are done end before the first of these', async () => {
  const all = ids(601)
  const last = all.at(-1)
  // The second one waits for the second chunk, and the first one for it.
  const later = [
    { id: all[0], parent: all[1] },
    { id: all[1], parent: last },
  ]
  for (const documents of [500, 600]) {
    const workspace = await addTestWorkspace(ws)
    const name = await declareTree(workspace)
    await limit(workspace, { documents })
    const values = [...later, ...all.slice(2).map((id) => ({ id }))]
    const { status, body } = await importInto(name, lines(...values), { as: workspace.service })
    expect([status, body.code]).toEqual([429, 'quota_exceeded'])
    expect(body.imported).toMatchObject({ lines: 0, created: documents, failed: 0 })
  }
})

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

/** More than a chunk, so that a line before these waits for the one after them. */
const between = () => Array.from({ length: 500 }, () => ({}))

const documentIn = async (name: string, id = '') =>
  (await call('GET', `/v1/collections/${name}/documents/${id}`, { as: ws.service })).body

test('line that waits, and a later one of the same id: stored in the order of the file', async () => {
  const [a = '', target = ''] = ids(2)
  for (const [mode, n, counts] of [
    ['upsert', 2, { created: 502, updated: 1 }],
    ['replace', 2, { created: 502, updated: 1 }],
    ['create', 1, { created: 502, existing: 1 }],
  ] as const) {
    const name = await declareTree(ws)
    const values = [{ id: a, n: 1, parent: target }, { id: a, n: 2 }, ...between(), { id: target }]
    const { body } = await importInto(name, lines(...values), { as: ws.service, query: `?mode=${mode}` })
    expect(body, mode).toMatchObject({ lines: 503, failed: 0, ...counts })
    const document = await documentIn(name, a)
    expect([document.n, document.parent], mode).toEqual([n, mode === 'replace' ? undefined : target])
  }
})

test('line that waits, and a later one of the same unique value: stored in the order of the file', async () => {
  const name = await declareTree(ws, { unique: [['email']] })
  const [target = ''] = ids(1)
  const others = between().map((_, n) => ({ email: `${n}` }))
  const values = [
    { email: 'a', n: 1, parent: target },
    { email: 'a', n: 2 },
    ...others,
    { id: target, email: 'target' },
  ]
  const query = '?mode=upsert&on=email'
  const { body } = await importInto(name, lines(...values), { as: ws.service, query })
  expect(body).toMatchObject({ created: 502, updated: 1, failed: 0 })
  const found = await call('GET', `/v1/collections/${name}/documents?email=eq.a`, { as: ws.service })
  expect(found.body.data).toMatchObject([{ n: 2, parent: target }])
})

test('lines behind one whose target never comes: it fails, and they are stored, with what refers to them', async () => {
  for (const mode of ['upsert', 'create']) {
    const name = await declareTree(ws)
    const [a = '', b = '', never] = ids(3)
    const values = [
      { id: a, n: 1, parent: never },
      { id: a, n: 2, parent: never },
      { id: a, n: 3 },
      { id: b, parent: a },
    ]
    const { body } = await importInto(name, lines(...values), { as: ws.service, query: `?mode=${mode}` })
    expect(body, mode).toMatchObject({
      ...{ lines: 4, created: 2, failed: 2 },
      errors: [
        { line: 1, code: 'reference_not_found' },
        { line: 2, code: 'reference_not_found' },
      ],
    })
    expect([(await documentIn(name, a)).n, (await documentIn(name, b)).parent]).toEqual([3, a])
  }
})

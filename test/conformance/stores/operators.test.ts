/** Random operators on random documents: both stores, declared or not, by PATCH and in batches, make what a naive model makes. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  operator,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'
import { repeated } from '../../support/stack/soak.ts'
import { type Doc, type Operators, someChange, someDocument } from './operator-model.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Operators over MongoDB are not tested: ${missing}.`)

const TYPE = { 'content-type': 'application/vnd.tenon.ops+json' }

let workspace: TestWorkspace
let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
beforeAll(async () => {
  workspace = await createTestWorkspace()
  if (missing === undefined) mongo = await startMongoApi()
})
afterAll(() => mongo?.stop())

/** Columns for some of the fields. */
const SCHEMA = {
  type: 'object',
  properties: { a: {}, b: { type: ['number', 'string', 'boolean', 'null', 'array', 'object'] } },
}

const PLACES = [
  ['undeclared, PostgreSQL', undefined, 'PostgreSQL'],
  ['relational', 'relational', 'PostgreSQL'],
  ['document, PostgreSQL', 'document', 'PostgreSQL'],
  ...(missing === undefined
    ? ([
        ['undeclared, MongoDB', undefined, 'MongoDB'],
        ['document, MongoDB', 'document', 'MongoDB'],
      ] as const)
    : []),
] as const

describe.each(PLACES)('%s', (_, store, where) => {
  test('random operators: the document, the version and the refusals are those of the model', async () => {
    const at = where === 'MongoDB' ? (mongo?.running ?? inject('tenon')) : inject('tenon')
    const as = workspace.service
    const collection = unique('ops')
    if (store !== undefined) {
      const body = { workspace_id: workspace.workspaceId, collection, store, schema: SCHEMA, mode: 'off' }
      const declared = await call('POST', '/v1/schemas', { as: await operator(at), body, at })
      expect(declared.status, JSON.stringify(declared.body)).toBe(201)
    }
    const documents = `/v1/collections/${collection}/documents`
    const random = randomOf(44)
    for (let n = 0; n < repeated(25, 2_000); n++) {
      const document = someDocument(random)
      const made = await call('POST', documents, { as, at, body: document })
      expect(made.status, JSON.stringify(document)).toBe(201)
      const { id } = made.body
      let before = document
      for (let change = 0; change < 3; change++) {
        const { operators, outcome } = someChange(random, before)
        const context = `${n} ${JSON.stringify({ before, operators })}`
        const version = (await call('GET', `${documents}/${id}`, { as, at })).body._version
        const reply = await send({ at, collection, id }, operators, random(2) === 0)
        const { _version, ...after } = fieldsOf(await call('GET', `${documents}/${id}`, { as, at }))
        if (typeof outcome === 'string') {
          expect(['state_conflict', 'number_unsafe'], context).toContain(reply.body.code)
          expect([after, _version], context).toEqual([before, version])
          continue
        }
        expect([reply.status, after], context).toEqual([200, outcome])
        const isSame = JSON.stringify(sorted(before)) === JSON.stringify(sorted(outcome))
        expect(_version, context).toBe(isSame ? version : version + 1)
        before = outcome
      }
    }
  })
})

function send(
  { at, collection, id }: { at: ReturnType<typeof inject<'tenon'>>; collection: string; id: string },
  operators: Operators,
  inBatch: boolean,
): Promise<Reply> {
  const path = `/v1/collections/${collection}`
  if (!inBatch)
    return call('PATCH', `${path}/documents/${id}`, {
      as: workspace.service,
      at,
      body: operators,
      headers: TYPE,
    })
  const body = { ops: [{ op: 'update', id, ...operators }] }
  return call('POST', `${path}/batch`, { as: workspace.service, at, body })
}

function fieldsOf({ body }: Reply): Doc & { _version: number } {
  const { id: _id, _created_at, _updated_at, ...fields } = body
  return fields
}

const sorted = (value: unknown): unknown =>
  typeof value !== 'object' || value === null || Array.isArray(value)
    ? Array.isArray(value)
      ? value.map(sorted)
      : value
    : Object.fromEntries(
        Object.entries(value)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, member]) => [name, sorted(member)]),
      )

/**
 * Generated rules, documents and callers: the API over both stores, the policies of PostgreSQL by themselves, and the evaluation
 * in this process admit the documents that a naive model admits.
 */

import fc from 'fast-check'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { evaluate } from '../../../src/features/collections/query/evaluate.ts'
import { bindRule } from '../../../src/features/collections/rules/bind-rule.ts'
import { readRule } from '../../../src/features/collections/rules/rule-language.ts'
import { toDeclaration } from '../../../src/features/collections/schemas/declaration-cache.ts'
import { valueAt } from '../../../src/features/collections/store.ts'
import {
  call,
  createTestWorkspace,
  operator,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'
import { repeated } from '../../support/stack/soak.ts'
import type { Running } from '../../support/stack/start.ts'
import { CALLERS, type Caller, DOCS, type Doc, type GeneratedRule, rules } from './generated-rules.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Rules over MongoDB are not tested: ${missing}.`)

const SCHEMA = {
  type: 'object',
  additionalProperties: false,
  properties: {
    n: { type: 'integer' },
    title: { type: ['string', 'null'] },
    team: { type: ['string', 'null'] },
    level: { type: ['integer', 'null'] },
    open: { type: 'boolean' },
    tags: { type: 'array' },
    publish_at: { type: 'string', format: 'date-time' },
  },
}

let workspace: TestWorkspace
let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
beforeAll(async () => {
  workspace = await createTestWorkspace()
  if (missing === undefined) mongo = await startMongoApi()
})
afterAll(() => mongo?.stop())

/** Each process of the API is an issuer by its own address; the keys are shared. */
const tokenOfCaller = ({ id, ...claims }: Caller, { url }: Running) =>
  tokenOf(
    {
      ...{ sub: id, tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId },
      ...{ role: 'user', roles: ['user'], ...claims },
    },
    { issuer: `${url}/auth`, audience: `${url}/v1` },
  )

const ownerOf = (doc: Doc): Caller | undefined => CALLERS.find(({ id }) => id === doc.owner)

/** Declares a collection with all documents, each created by its owner. @returns the id of the declaration */
async function fill(collection: string, store: string, at: Running): Promise<string> {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store, schema: SCHEMA },
    access: { user: { read: true, create: true } },
  }
  const { body: declared } = await call('POST', '/v1/schemas', { as: await operator(at), body, at })
  for (const { owner: _owner, ...document } of DOCS) {
    const owner = ownerOf({ owner: _owner, ...document })
    const as = owner === undefined ? workspace.service : await tokenOfCaller(owner, at)
    const reply = await call('POST', `/v1/collections/${collection}/documents`, { as, body: document, at })
    expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  }
  return declared.id
}

async function listed(collection: string, caller: Caller, at: Running): Promise<number[]> {
  const as = await tokenOfCaller(caller, at)
  const { status, body } = await call('GET', `/v1/collections/${collection}/documents?order=n`, { as, at })
  if (status === 403) return []
  expect(status, JSON.stringify(body)).toBe(200)
  return body.data.map(({ n }: { n: number }) => n)
}

const expected = (rule: { holds: (doc: Doc, caller: Caller) => boolean }, caller: Caller): number[] =>
  DOCS.filter((doc) => rule.holds(doc, caller)).map(({ n }) => n)

async function setRead(id: string, read: unknown, at: Running): Promise<void> {
  const body = { access: { user: { read } } }
  const reply = await call('PUT', `/v1/schemas/${id}`, { as: await operator(at), body, at })
  expect(reply.status, `${JSON.stringify(read)} ${JSON.stringify(reply.body)}`).toBe(200)
}

describe('rules over PostgreSQL', () => {
  test('generated rules – admit the changes that the model admits, also by the policies alone', async () => {
    const at = inject('tenon')
    const id = await fill('changed', 'relational', at)
    await expectChanges(at, id, 'changed', repeated(8, 200), async (rule, caller) => {
      const context = `${JSON.stringify(rule.rule)} for ${caller.id}`
      for (const change of [
        'update tenon_data.$relation set version = version',
        'delete from tenon_data.$relation',
      ])
        expect(await byPolicy(id, caller, `${change} returning $n as n`), context).toEqual(
          expected(rule, caller),
        )
      const insert =
        'insert into tenon_data.$relation (id, $n) values (gen_random_uuid(), 100) returning $n as n'
      const holds = rule.holds({ n: 100, owner: caller.id }, caller)
      expect(await byPolicy(id, caller, insert), context).toEqual(holds ? [100] : [])
    })
  })

  test('generated rules – admit what the model admits, also by the policy alone and in this process', async () => {
    const at = inject('tenon')
    const id = await fill('relational', 'relational', at)
    await fc.assert(
      fc.asyncProperty(rules, async (rule) => {
        await setRead(id, rule.rule, at)
        for (const caller of CALLERS) {
          const found = await listed('relational', caller, at)
          const context = `${JSON.stringify(rule.rule)} for ${caller.id}`
          expect(found, context).toEqual(expected(rule, caller))
          expect(evaluated(rule.rule, caller), context).toEqual(expected(rule, caller))
          expect(await byPolicy(id, caller), context).toEqual(expected(rule, caller))
        }
      }),
      { numRuns: repeated(30, 600), seed: 20_261_125 },
    )
  })
})

describe.skipIf(missing !== undefined)('rules over MongoDB', () => {
  test('generated rules – admit the changes that the model admits', async () => {
    const at = mongo?.running ?? inject('tenon')
    const id = await fill('changed_document', 'document', at)
    await expectChanges(at, id, 'changed_document', repeated(4, 100))
  })

  test('generated rules – admit what the model admits', async () => {
    const at = mongo?.running ?? inject('tenon')
    const id = await fill('document', 'document', at)
    await fc.assert(
      fc.asyncProperty(rules, async (rule) => {
        await setRead(id, rule.rule, at)
        for (const caller of CALLERS) {
          const found = await listed('document', caller, at)
          expect(found, `${JSON.stringify(rule.rule)} for ${caller.id}`).toEqual(expected(rule, caller))
        }
      }),
      { numRuns: repeated(12, 200), seed: 20_261_125 },
    )
  })
})

const OPERATORS = { 'content-type': 'application/vnd.tenon.ops+json' }

/** Creates, updates and deletes each document as each caller, under a rule for all changes. */
async function expectChanges(
  at: Running,
  id: string,
  collection: string,
  numRuns: number,
  more: (rule: GeneratedRule, caller: Caller) => Promise<void> = async () => {},
): Promise<void> {
  const path = `/v1/collections/${collection}/documents`
  const all = await call('GET', `${path}?order=n`, { as: workspace.service, at })
  const ids: string[] = all.body.data.map((document: { id: string }) => document.id)
  await fc.assert(
    fc.asyncProperty(rules, async (rule) => {
      const access = { user: { read: true, create: rule.rule, update: rule.rule, delete: rule.rule } }
      const set = await call('PUT', `/v1/schemas/${id}`, { as: await operator(at), body: { access }, at })
      expect(set.status, JSON.stringify(set.body)).toBe(200)
      for (const caller of CALLERS) {
        const as = await tokenOfCaller(caller, at)
        await more(rule, caller)
        for (const [index, doc] of DOCS.entries()) {
          const send = (method: string, one = ids[index], body?: object, headers = {}) =>
            call(method, one === '' ? path : `${path}/${one}`, { as, at, headers, ...(body && { body }) })
          const context = `${JSON.stringify(rule.rule)} for ${caller.id} and ${doc.n}`
          const holds = rule.holds(doc, caller)
          expect((await send('PATCH', ids[index], { n: doc.n })).status, context).toBe(holds ? 200 : 403)
          const applied = await send('PATCH', ids[index], { max: { n: doc.n } }, OPERATORS)
          expect(applied.status, context).toBe(holds ? 200 : 403)
          if (!holds) expect((await send('DELETE')).status, context).toBe(403)
          const { owner: _owner, ...fields } = doc
          const isOwn = rule.holds({ ...doc, owner: caller.id }, caller)
          const made = await send('POST', '', fields)
          expect(made.status, context).toBe(isOwn ? 201 : 403)
          if (isOwn) expect((await send('DELETE', made.body.id)).status, context).toBe(200)
          const id = crypto.randomUUID()
          const chosen = await send('PUT', id, fields, { 'if-none-match': '*' })
          expect(chosen.status, context).toBe(isOwn ? 201 : 403)
          if (isOwn) expect((await send('DELETE', id)).status, context).toBe(200)
        }
      }
    }),
    { numRuns, seed: 20_261_126 },
  )
}

const DECLARED = toDeclaration({
  ...{
    id: 'sch',
    collection: 'relational',
    relation: 'unnamed',
    store: 'relational',
    mode: 'enforce',
    columns: [],
    relations: [],
    checks: [],
    exclusions: [],
    ttl: null,
    indexes: [],
  },
  ...{ access: {}, schema: SCHEMA },
})

function evaluated(rule: Readonly<Record<string, unknown>>, caller: Caller): number[] {
  const { id, email, email_verified: emailVerified, claims } = caller
  const filter = bindRule(
    readRule(rule),
    { user: { id, email, emailVerified, claims }, now: new Date() },
    DECLARED,
  )
  const stored = (doc: Doc) => {
    const { owner, ...fields } = doc
    return { id: '', version: 1, created_at: '', updated_at: '', owner, fields }
  }
  return DOCS.filter((doc) => evaluate(filter, (path) => valueAt(stored(doc), path))).map(({ n }) => n)
}

let client: Client | undefined
afterAll(() => client?.end())

const SELECT = 'select $n as n from tenon_data.$relation'

/**
 * What a statement of tenon_user finds or changes that has forgotten the rule.
 * @param text `$n` stands for the column of the property n, `$relation` for the table
 */
async function byPolicy(
  id: string,
  { id: userId, email, email_verified, claims }: Caller,
  text = SELECT,
): Promise<number[]> {
  if (client === undefined) {
    client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
    await client.connect()
  }
  await client.query('begin')
  try {
    const user = JSON.stringify({ id: userId, ...(email_verified && { email }), claims })
    await client.query(
      `select set_config('role', 'tenon_user', true), set_config('tenon.tenant', $1, true),
        set_config('tenon.workspace', $2, true), set_config('tenon.user', $3, true)`,
      [workspace.tenantId, workspace.workspaceId, user],
    )
    const { rows } = await client.query('select relation, columns from tenon.schemas where id = $1', [id])
    const column = rows[0].columns.find(({ property }: { property: string }) => property === 'n').column
    const found = await client.query(text.replaceAll('$n', column).replace('$relation', rows[0].relation))
    return found.rows.map(({ n }) => Number(n)).sort((a, b) => a - b)
  } catch (error) {
    if (/permission denied|row-level security/.test(String(error))) return []
    throw error
  } finally {
    await client.query('rollback')
  }
}

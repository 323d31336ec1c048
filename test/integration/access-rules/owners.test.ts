// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** A write that names `_owner`: refused on every path, but that an import by a service key keeps the owners of a backup. */

import { beforeAll, expect, inject, test } from 'vitest'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { callTool, publishMcpServer, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import { exported, importInto, lines } from '../../support/clients/ndjson.ts'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

const OWN = { _owner: '$user.id' }
const RULES = { user: { read: OWN, create: true, update: OWN, delete: OWN } }

let workspace: TestWorkspace
let mia: Caller
let ben: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  ;[mia, ben] = [await userToken(workspace, 'mia'), await userToken(workspace, 'ben')]
})

const titles = (all: readonly { title?: unknown }[]) => all.map(({ title }) => title).sort()

test('requests with any key or token, other than an import – that name an owner – are refused with its place', async () => {
  const { at } = await declaredWithRules(workspace, RULES)
  const { body: own } = await createIn(at, mia, { title: 'a' })
  const one = `${at}/documents/${own.id}`
  const data = { title: 'b', _owner: 'mia' }
  for (const as of [mia, workspace.service])
    for (const [method, path, body] of [
      ['POST', `${at}/documents`, data],
      ['PUT', one, data],
      ['PUT', `${one}?replace=true`, data],
      ['PATCH', one, data],
      ['POST', `${at}/batch`, { ops: [{ op: 'create', data }] }],
      ['POST', `${at}/batch`, { ops: [{ op: 'patch', id: own.id, data }] }],
      [
        'POST',
        '/v1/batch',
        { ops: [{ collection: at.slice('/v1/collections/'.length), op: 'create', data }] },
      ],
    ] as const) {
      const reply = await call(method, path, { as, body })
      expect([path, reply.status, reply.body.errors?.[0].pointer]).toEqual([path, 400, '/_owner'])
    }
  expect((await call('GET', one, { as: mia })).body).toEqual(own)
})

test('flow and MCP tool – that name an owner – are refused, also where the schema admits any field', async () => {
  const collection = unique('c')
  const schema = { properties: { title: { type: 'string' } } }
  const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema, access: RULES }
  const declared = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(declared.status, JSON.stringify(declared.body)).toBe(201)
  const runner = new FlowRunner(workspace, inject('tenon'))
  const document = "{ title: x, _owner: '${ .who }' }"
  await runner.publish(
    'claims',
    `document: { dsl: '1.0.3', namespace: n, name: claims, version: '1.0.0' }
do: [{ keep: { call: collection.create, with: { name: ${collection}, document: ${document} } } }]\n`,
  )
  const { id } = await runner.start('claims', { who: 'ben' })
  const { status, error } = await runner.ended(id)
  expect([status, error.status, JSON.stringify(error)]).toEqual([
    ...['faulted', 400],
    expect.stringContaining('/_owner'),
  ])
  const tool = `collections:${collection}:create`
  const server = await publishMcpServer(workspace, unique('owners'), {
    [tool]: { enabled: true, name: 'keep' },
  })
  const as = await tokenFor(server, scopesOf(server, 'keep'))
  const { result } = (await callTool(server.path, as, 'keep', { title: 'x', _owner: 'ben' })).body
  expect([result.isError, JSON.stringify(result)]).toEqual([true, expect.stringContaining('_owner')])
  expect(await runner.documents(collection)).toEqual([])
})

test('import – by a user – takes lines of their own export, and none that names another owner', async () => {
  const [from, to] = [await declaredWithRules(workspace, RULES), await declaredWithRules(workspace, RULES)]
  await createIn(from.at, mia, { title: 'mine' })
  const ownLines = (await exported(from.collection, { as: mia })).map(({ id: _id, ...rest }) => rest)
  const forged = ['ben', null, '', ['mia'], { id: 'mia' }, 'MIA'].map((_owner) => ({
    title: 'forged',
    _owner,
  }))
  const reply = await importInto(to.collection, lines(...ownLines, ...forged), { as: mia })
  expect(reply.body).toMatchObject({ created: 1, failed: forged.length })
  for (const { pointer, code } of reply.body.errors)
    expect([pointer, code]).toEqual(['/_owner', 'validation_failed'])
  expect(titles(await exported(to.collection, { as: mia }))).toEqual(['mine'])
  expect(await exported(to.collection, { as: ben })).toEqual([])
  const { at } = await declaredWithRules(workspace, { anon: { read: true, create: true } })
  const anon = await importInto(at.slice('/v1/collections/'.length), lines({ _owner: 'mia' }), {
    as: workspace.anon,
  })
  expect(anon.body).toMatchObject({ created: 0, failed: 1, errors: [{ pointer: '/_owner' }] })
})

test('import – by a service key – restores the documents of a backup to their owners', async () => {
  const more = { indexes: [{ fields: ['_owner'] }] }
  const [from, to] = [
    await declaredWithRules(workspace, RULES),
    await declaredWithRules(workspace, RULES, more),
  ]
  await createIn(from.at, mia, { title: 'of mia' })
  await createIn(from.at, ben, { title: 'of ben' })
  await createIn(from.at, workspace.service, { title: 'of nobody' })
  const as = workspace.service
  const { body: backup } = await call('GET', `${from.at}/export`, { as })
  expect((await importInto(to.collection, backup, { as })).body).toMatchObject({ created: 3, failed: 0 })
  // Again, and one line alone: nothing changes.
  expect((await importInto(to.collection, backup, { as })).body).toMatchObject({ created: 0, existing: 3 })
  const [first] = backup.split('\n')
  const stolen = JSON.stringify({ ...JSON.parse(first), _owner: 'ben' })
  expect((await importInto(to.collection, stolen, { as })).body).toMatchObject({ existing: 1 })
  expect(titles(await exported(to.collection, { as: mia }))).toEqual(['of mia'])
  expect(titles(await exported(to.collection, { as: ben }))).toEqual(['of ben'])
  const [own] = await exported(to.collection, { as: mia })
  const path = `${to.at}/documents/${own.id}`
  expect((await call('PATCH', path, { as: mia, body: { title: 'changed' } })).body).toMatchObject({
    ...{ title: 'changed', _owner: 'mia', _version: 2 },
  })
  const events = await publishedChanges(workspace, to.collection)
  expect(events.map(({ data }) => data.owner ?? null).sort()).toEqual(['ben', 'mia', 'mia', null])
})

test('import – by a service key, of an owner that cannot be one – refuses the line and stores the others', async () => {
  const { collection } = await declaredWithRules(workspace, RULES)
  const as = workspace.service
  const odd = ['', 7, ['mia'], {}, 'x'.repeat(201), 'a\u202eb', 'a\u0000b'].map((_owner) => ({ _owner }))
  const text = lines(...odd, { title: 'kept', _owner: "'); drop table tenon.users; --" })
  expect((await importInto(collection, text, { as })).body).toMatchObject({ created: 1, failed: odd.length })
  const undeclared = await importInto(unique('c'), lines({ _owner: 'mia' }, { n: 1 }), { as })
  expect(undeclared.body).toMatchObject({ created: 1, failed: 1, errors: [{ line: 1, pointer: '/_owner' }] })
})

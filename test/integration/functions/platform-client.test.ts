/** `context.tenon`: the operations of the API inside a function, with the rights of its caller or the scopes that it declares. */

import { beforeAll, describe, expect, test } from 'vitest'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import { ended, publishOn } from '../../support/fixtures/event-triggers.ts'
import { deployed, EVALUATES, invoke, resultOf } from '../../support/fixtures/functions.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import { publish, resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
/** Evaluates an expression: for service keys, for anyone, and with declared scopes. */
let own: string
let open: string
let reader: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  ;[own, open, reader] = await Promise.all([
    deployed(workspace, EVALUATES),
    deployed(workspace, EVALUATES, { anon: true, user: true }),
    deployed(workspace, EVALUATES, { anon: true, scopes: ['collections:read'] }),
  ])
})

const evaluate = (
  run: string,
  { as = workspace.service, id = own, ...input }: Record<string, unknown> = {},
) => resultOf(as as Caller, id as string, { run, ...input })

describe('methods', () => {
  test('documents: created, read, listed, queried, updated and deleted, as REST answers', async () => {
    const got = await evaluate(`{
      const made = await tenon.collections.create('notes', { title: 'a', n: 1 })
      const read = await tenon.collections.get('notes', made.id)
      const part = await tenon.collections.get('notes', made.id, { select: 'n' })
      const updated = await tenon.collections.update('notes', made.id, { n: 2 })
      const listed = await tenon.collections.list('notes', { filters: [['n', 'gte.2']], page_size: 5 })
      const found = await tenon.collections.query('notes', { filter: { n: 2 }, limit: 1 })
      const sums = await tenon.collections.aggregate('notes', { group: ['title'], measures: { total: { sum: 'n' } } })
      const patched = await tenon.collections.patch('notes', made.id, { operators: { inc: { n: 1 }, push: { tags: 'a' } } })
      const deleted = await tenon.collections.delete('notes', made.id)
      return { made, read, part, updated, listed, found, sums, patched, deleted }
    }`)
    const { id } = got.made
    expect(got.made).toMatchObject({ title: 'a', n: 1, _version: 1 })
    expect(got.read).toEqual(got.made)
    expect(got.part).toEqual({ id, n: 1 })
    expect(got.updated).toMatchObject({ id, title: 'a', n: 2, _version: 2 })
    expect(got.listed.data).toEqual([got.updated])
    expect(got.found.data).toEqual([got.updated])
    expect(got.sums.data).toEqual([{ title: 'a', total: 2 }])
    expect(got.patched).toMatchObject({ id, n: 3, tags: ['a'], _version: 3 })
    expect(got.deleted).toEqual({ id, deleted: true })
  })

  test('batch: all or none, or each by itself, with the rights of the caller', async () => {
    const got = await evaluate(`{
      const create = { collection: 'batches', op: 'create', data: { n: 1 } }
      const made = await tenon.batch([create, { collection: 'batches', op: 'update', id: { $ref: 0 }, inc: { n: 1 } }])
      const refused = await tenon.batch([create, { ...create, id: made.results[0].id }]).catch(({ code, status }) => ({ code, status }))
      const each = await tenon.batch([create, { ...create, id: made.results[0].id }], { atomic: false })
      const { data } = await tenon.collections.list('batches')
      return { made, refused, each, ns: data.map(({ n }) => n) }
    }`)
    expect(got.made).toMatchObject({
      committed: true,
      results: [{ status: 201 }, { status: 200, version: 2 }],
    })
    expect(got.refused).toEqual({ code: 'precondition_failed', status: 412 })
    expect(got.each).toMatchObject({ committed: false, results: [{ status: 201 }, { status: 412 }] })
    expect(got.ns).toEqual([2, 1])
    const asAnon = await evaluate(`tenon.batch([{ collection: 'batches', op: 'create', data: {} }])`, {
      as: workspace.anon,
      id: open,
    })
    expect(asAnon).toMatchObject({ code: 'forbidden', status: 403 })
  })

  test('objects: JSON, texts and bytes of any kind come back as they were put, with their type', async () => {
    const bucket = await bucketOf(workspace)
    const got = await evaluate(
      `{
      const { put, get, list } = tenon.objects
      const bytes = new Uint8Array([0, 1, 255])
      const given = {
        'a.json': { n: 1 },
        'a.txt': 'text',
        array: bytes,
        view: new DataView(bytes.buffer, 1, 2),
        buffer: bytes.buffer,
        blob: new Blob([bytes], { type: 'image/png' }),
        response: new Response('{"n":2}', { headers: { 'content-type': 'application/json' } }),
        empty: new Response(null),
        stream: new Blob([bytes, bytes]).stream(),
        base64: { base64: 'AAH/' },
      }
      const seen = {}
      for (const [name, content] of Object.entries(given)) {
        const { size } = await put(input.bucket, 'in/' + name, content, name === 'stream' ? { content_type: 'x/y' } : undefined)
        const read = await get(input.bucket, 'in/' + name)
        seen[name] = [size, read.headers.get('content-type'), new TextDecoder('latin1').decode(await read.bytes())]
      }
      const before = await list(input.bucket, { prefix: 'in/' })
      const part = await get(input.bucket, 'in/a.txt', { range: 'bytes=1-2' })
      const known = await get(input.bucket, 'in/a.txt', { if_none_match: part.headers.get('etag') })
      const used = new Response('x')
      await used.text()
      const refused = await put(input.bucket, 'in/used', used).catch(({ name }) => name)
      const deleted = await tenon.objects.delete(input.bucket, 'in/blob')
      return { seen, part: [part.status, await part.text()], known: [known.status, known.body], keys: before.data.length, refused, deleted }
    }`,
      { bucket },
    )
    expect(got.seen).toEqual({
      'a.json': [7, 'application/json', '{"n":1}'],
      'a.txt': [4, 'text/plain; charset=utf-8', 'text'],
      array: [3, 'application/octet-stream', '\u0000\u0001ÿ'],
      view: [2, 'application/octet-stream', '\u0001ÿ'],
      buffer: [3, 'application/octet-stream', '\u0000\u0001ÿ'],
      blob: [3, 'image/png', '\u0000\u0001ÿ'],
      response: [7, 'application/json', '{"n":2}'],
      empty: [0, 'application/octet-stream', ''],
      stream: [6, 'x/y', '\u0000\u0001ÿ\u0000\u0001ÿ'],
      base64: [17, 'application/json', '{"base64":"AAH/"}'],
    })
    expect([got.part, got.known, got.keys]).toEqual([[206, 'ex'], [304, null], 10])
    expect(got.refused).toBe('TypeError')
    expect(got.deleted).toMatchObject({ key: 'in/blob', deleted: true })
  })

  test('events, functions and flows: published, invoked, started and read', async () => {
    await publish(workspace, 'double', '  - a: { set: { twice: "${ .n * 2 }" } }')
    const add = await deployed(workspace, 'export default ({ a, b }) => a + b')
    const got = await evaluate(
      `{
      const event = await tenon.events.publish('orders.made', { n: 1 })
      const sum = await tenon.functions.invoke(input.add, { a: 1, b: 2 })
      const run = await tenon.flows.start('double', { n: 4 }, { wait: 20 })
      return { event, sum, run, read: await tenon.flows.get(run.id) }
    }`,
      { add },
    )
    expect(got.event).toMatchObject({ topic: 'orders.made' })
    expect(got.sum).toBe(3)
    expect(got.run).toMatchObject({ status: 'completed', output: { twice: 8 } })
    expect(got.read).toMatchObject({ id: got.run.id, status: 'completed' })
    const started = await asSuperuser<{ trigger: { kind: string } }>(
      'select trigger from tenon.function_runs where function_id = $1',
      [add],
    )
    expect(started.map(({ trigger }) => trigger.kind)).toEqual(['function'])
  })

  test.each([
    [
      'tenon.collections.get("notes")',
      'It got 1 arguments. The method is collections.get(name, id, { select, expand }?).',
    ],
    ['tenon.collections.get("notes", "x", { selct: "a" })', 'There is no option `selct`.'],
    ['tenon.collections.create("notes", 7)', 'collections.create(name, document, { upsert }?).'],
    ['tenon.collections.list("notes", "n.gt.1")', 'Its last argument is an object of options.'],
    ['tenon.events.publish("a b", 1)', 'events.publish(topic, data?).'],
    ['tenon.objects.put("b")', 'It got 1 arguments. The method is objects.put(bucket, key, content,'],
  ])('wrong arguments, %s: refused with the signature', async (run, detail) => {
    const refused = await evaluate(run)
    expect(refused).toMatchObject({ code: 'validation_failed', status: 400 })
    expect(refused.detail).toContain(detail)
  })

  test('more than 1,000 calls in a run: refused', async () => {
    const got = await evaluate(`{
      const codes = []
      for (let n = 0; n < 1002; n += 1) codes.push(await tenon.collections.get().catch(({ code }) => code))
      return [codes[999], codes[1000], codes[1001]]
    }`)
    expect(got).toEqual(['validation_failed', 'quota_exceeded', 'quota_exceeded'])
  })
})

describe('rights of the caller', () => {
  test('a user: the code sees and changes the documents that the rules allow that user', async () => {
    const mine = { _owner: '$user.id' }
    const { collection, at } = await declaredWithRules(workspace, {
      user: { read: mine, create: true, update: mine },
    })
    const mia = await userToken(workspace, 'mia')
    const ofBen = (await createIn(at, await userToken(workspace, 'ben'), { title: 'of ben' })).body
    const got = await evaluate(
      `{
      const made = await tenon.collections.create(input.collection, { title: 'of mia' })
      const listed = await tenon.collections.list(input.collection)
      const other = await tenon.collections.update(input.collection, input.ofBen, { title: 'taken' }).catch(({ code }) => code)
      const flow = await tenon.flows.start('double').catch(({ code }) => code)
      return { owner: made._owner, titles: listed.data.map(({ title }) => title), other, flow }
    }`,
      { as: mia, id: open, collection, ofBen: ofBen.id },
    )
    expect(got).toEqual({ owner: 'mia', titles: ['of mia'], other: 'not_found', flow: 'forbidden' })
  })

  test('a user, through a function that invokes another: the same rights, and only functions for users', async () => {
    const { collection, at } = await declaredWithRules(workspace, { user: { read: { _owner: '$user.id' } } })
    await createIn(at, workspace.service, { title: 'of nobody' })
    const mia = await userToken(workspace, 'mia')
    const list = `(await tenon.collections.list("${collection}")).data.length`
    const through = (id: string, run: string) =>
      evaluate('tenon.functions.invoke(input.inner, { run: input.inside })', {
        ...{ as: mia, id: open, inner: id, inside: run },
      })
    expect(await through(open, list)).toBe(0)
    expect(await through(own, list)).toMatchObject({ code: 'not_found' })
  })

  test('an anon key: reads what is open to it, writes nothing', async () => {
    const { collection, at } = await declaredWithRules(workspace, { anon: { read: true } })
    await createIn(at, workspace.service, { title: 'a' })
    const asAnon = { as: workspace.anon, id: open }
    const list = (name: string) => `(await tenon.collections.list("${name}")).data.length`
    expect(await evaluate(list(collection), asAnon)).toBe(1)
    for (const run of [
      ...['tenon.events.publish("a", 1)', `tenon.collections.create("${collection}", {})`],
      list('undeclared'),
    ])
      expect(await evaluate(run, asAnon)).toMatchObject({ code: 'forbidden', status: 403 })
  })

  test('a service key with scopes: the code has no others', async () => {
    const { key } = await keysOf(workspace).make({ scopes: ['functions:write', 'collections:read'] })
    const as = { apikey: key }
    expect(await evaluate('(await tenon.collections.list("public")).page.has_more', { as })).toBe(false)
    const refused = await evaluate('tenon.collections.create("public", {})', { as })
    expect(refused).toMatchObject({ code: 'insufficient_scope', status: 403 })
    expect(refused.detail).toContain('collections:write')
  })

  test('another workspace: nothing of it is there, whatever the code names', async () => {
    const other = await addTestWorkspace(workspace)
    const theirs = await deployed(other, 'export default () => 1')
    await call('POST', '/v1/collections/secret/documents', { as: other.service, body: { n: 1 } })
    const got = await evaluate(
      `{
      const outcome = (work) => work.then((value) => value, ({ code }) => code)
      return Promise.all([
        outcome(tenon.functions.invoke(input.theirs)),
        outcome(tenon.collections.list('secret').then(({ data }) => data.length)),
        outcome(tenon.collections.list('secret', { workspace_id: input.room, ws: input.room })),
        outcome(tenon.objects.list('bucket-of-another')),
      ])
    }`,
      { theirs, room: other.workspaceId },
    )
    expect(got).toEqual(['not_found', 0, 'validation_failed', 'AccessDenied'])
  })
})

describe('declared scopes', () => {
  test('the code acts as a service with exactly these, for each caller', async () => {
    const { collection, at } = await declaredWithRules(workspace, {})
    await createIn(at, workspace.service, { title: 'a' })
    const list = `(await tenon.collections.list("${collection}")).data.length`
    expect(await evaluate(list, { as: workspace.anon, id: reader })).toBe(1)
    const refused = await evaluate(`tenon.collections.create("${collection}", {})`, { id: reader })
    expect(refused).toMatchObject({
      code: 'insufficient_scope',
      detail:
        'This needs the scope collections:write. The function declares collections:read: add it to `scopes` in the configuration of the function.',
    })
  })
})

describe('audit', () => {
  test('each call: the run is the actor, its starter is named, reads that are alike share an entry', async () => {
    const audited = await createTestWorkspaceWithStorage()
    const { key, id: keyId } = await keysOf(audited).make()
    const id = await deployed(audited, EVALUATES)
    const reply = await invoke({ apikey: key }, id, {
      run: `{
        await tenon.collections.create('a', {})
        for (let n = 0; n < 3; n += 1) await tenon.collections.list('a')
        await tenon.objects.get('another-bucket', 'k').catch(() => {})
        await tenon.flows.get('run_none').catch(() => {})
      }`,
    })
    const requestId = reply.headers.get('x-request-id')
    const entries = await eventually(async () => {
      const found = await entriesOfWorkspace(audited)
      const ofRun = found.filter(
        ({ request_id, actor }) => request_id === requestId && (actor as { kind: string }).kind === 'run',
      )
      return ofRun.length === 4 ? ofRun : undefined
    })
    expect(entries.map(({ operation, outcome, count }) => [operation, outcome, count]).toSorted()).toEqual([
      ['collection.create', 'done', 1],
      ['collection.list', 'done', 3],
      ['flow.get_execution', 'failed', 1],
      ['object.get', 'denied', 1],
    ])
    for (const { actor, detail } of entries) {
      expect(actor).toMatchObject({ kind: 'run', role: 'service' })
      expect((actor as { subject: string }).subject).toMatch(
        new RegExp(`^${audited.tenantId}:${audited.workspaceId}:${id}:[0-9a-f-]{36}$`),
      )
      expect(detail).toEqual({ on_behalf_of: keyId })
    }
  })
})

describe('recursion', () => {
  const deep = (depth: number) => ({ 'tenon-chain-depth': String(depth) })

  test('a function that invokes itself ends at the maximum depth', async () => {
    const { body } = await invoke(
      workspace.service,
      own,
      { run: 'tenon.functions.invoke(input.own, {})', own },
      deep(15),
    )
    expect(body).toMatchObject({ code: 'state_conflict', status: 409 })
    expect(body.detail).toContain('16 runs have started one another')
  })

  test('flows and events that a function starts are deeper than it', async () => {
    const onNote = await publishOn(workspace, '{ one: { with: { type: deep.note } } }')
    const onDocument = await publishOn(workspace, '{ one: { with: { type: collections.deep.created } } }')
    const run = `{
      await tenon.events.publish('deep.note', 1)
      await tenon.collections.create('deep', {})
      return (await tenon.flows.start('double', { n: 1 })).id
    }`
    const { body: id } = await invoke(workspace.service, own, { run }, deep(3))
    await Promise.all([ended(onNote, 1), ended(onDocument, 1)])
    const depths = await asSuperuser<{ chain_depth: number }>(
      'select chain_depth from tenon.executions where id = $1 or flow_id = any($2)',
      [id, [onNote.flowId, onDocument.flowId]],
    )
    expect(depths.map(({ chain_depth }) => chain_depth)).toEqual([5, 5, 5])
    const { body } = await invoke(workspace.service, own, { run: 'tenon.flows.start("double")' }, deep(15))
    expect(body).toMatchObject({ code: 'state_conflict' })
  })
})

test('suspended workspace: the next call ends the run, even if the code catches its error', async () => {
  const own = await createTestWorkspaceWithStorage()
  const id = await deployed(own, EVALUATES, { timeout: '30s' })
  const running = invoke(own.service, id, {
    run: '{ try { for (;;) await tenon.collections.list("a") } catch { return "went on" } }',
  })
  await eventually(async () => {
    const [row] = await asSuperuser<{ status: string }>(
      'select status from tenon.function_runs where function_id = $1',
      [id],
    )
    return row?.status === 'running' ? true : undefined
  })
  await suspendWorkspace(own, own.operator)
  const { status, body } = await running
  expect([status, body.code]).toEqual([403, 'workspace_suspended'])
  await resumeWorkspace(own, own.operator)
})

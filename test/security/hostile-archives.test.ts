/** Imports archives that somebody has cut, changed or made up: each is refused with the member that is wrong, and leaves nothing. */

import { beforeAll, expect, test } from 'vitest'
import { compressed, exportArchive, type Member, membersOf } from '../support/fixtures/archives.ts'
import {
  ArchiveEditor,
  type Entry,
  named,
  problemOf,
  sealed,
  tarOf,
  USER,
} from '../support/fixtures/made-up-archives.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let archive: Buffer
let members: readonly Member[]

beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId } = workspace
  const schema = { required: ['title'], properties: { title: { type: 'string' } } }
  const declared = { workspace_id: workspaceId, collection: 'tasks', store: 'relational', schema }
  await call('POST', '/v1/schemas', { as: operator, body: declared })
  await call('POST', '/v1/collections/tasks/documents', { as, body: { title: 'a' } })
  await call('PUT', `/v1/objects/${await bucketOf(workspace)}/a`, { as, body: 'bytes' })
  archive = await exportArchive(workspace)
  members = membersOf(archive)
  edit = new ArchiveEditor(members)
})

let edit: ArchiveEditor
const contents = () => edit.contents()
const changed = (...args: Parameters<ArchiveEditor['changed']>) => edit.changed(...args)
const added = (...args: Parameters<ArchiveEditor['added']>) => edit.added(...args)

const ofType = (type: string, link = ''): Entry => ({
  name: 'users/000001.ndjson',
  content: Buffer.alloc(0),
  header: (block) => {
    block.write(type, 156, 'latin1')
    block.write(link, 157, 'latin1')
  },
})

const HUGE = 200_000_000
/** The object of the archive as a line, with other members. */
function objectLine(other: object): string {
  const line = members.find(({ name }) => OBJECTS.test(name))?.content.toString() ?? '{}'
  return JSON.stringify({ ...JSON.parse(line), ...other })
}
const SETTINGS = /^settings/
const DOCUMENTS = /^documents/
const OBJECTS = /^objects\/000001\.ndjson/

/** Archives by what is wrong with them, each with what the problem has to say. */
const CASES: Readonly<Record<string, readonly [make: () => Buffer, detail: RegExp]>> = {
  'no archive': [() => Buffer.from('PK\x03\x04 something else'), /zstd/],
  'cut off while compressed': [() => archive.subarray(0, archive.byteLength - 40), /cut off/],
  'cut off between members': [() => compressed(tarOf(members.slice(0, 3))), /manifest\.ndjson.* is missing/],
  'cut off within a member': [() => compressed(tarOf(members).subarray(0, 2_000)), /cut off/],
  'without its beginning': [() => sealed(contents().slice(1)), /tenon\.json/],
  'of another version': [
    () => sealed(changed(/^tenon/, (text) => text.replace('"version":1', '"version":2'))),
    /version 2/,
  ],
  'of another program': [
    () => sealed(changed(/^tenon/, (text) => text.replace('tenon-archive', 'tar'))),
    /tenon\.json/,
  ],
  'with a slug that is none': [
    () => sealed(changed(/^tenon/, (text) => text.replace(/"slug":"[^"]+"/, '"slug":"a\\"; b"'))),
    /tenon\.json.*slug/,
  ],
  'with a name on two lines': [
    () => sealed(changed(/^tenon/, (text) => text.replace(/"name":"[^"]+"/, '"name":"a\\nb"'))),
    /tenon\.json.*name/,
  ],
  'with a changed member': [
    () =>
      compressed(tarOf([...changed(DOCUMENTS, (text) => text.replace('"a"', '"b"')), ...members.slice(-1)])),
    /documents\/tasks\/000001\.ndjson.*SHA-256/,
  ],
  'with a damaged header': [
    () => {
      const tar = tarOf(members)
      tar.write('7', 130, 'latin1')
      return compressed(tar)
    },
    /header of a member is damaged/,
  ],
  'with a symbolic link': [
    () => sealed(added(SETTINGS, ofType('2', '/etc/passwd'))),
    /users.*not a plain file/,
  ],
  'with a hard link': [() => sealed(added(SETTINGS, ofType('1', 'tenon.json'))), /not a plain file/],
  'with a directory': [() => sealed(added(SETTINGS, ofType('5'))), /not a plain file/],
  'with an extended header': [() => sealed(added(SETTINGS, ofType('x'))), /not a plain file/],
  'with a long name': [() => sealed(added(SETTINGS, ofType('L'))), /not a plain file/],
  'with a name above its folder': [
    () => sealed(added(SETTINGS, named('../users/000001.ndjson'))),
    /\.\.\/users.* has a name/,
  ],
  'with an absolute name': [() => sealed(added(SETTINGS, named('/users/000001.ndjson'))), /has a name/],
  'with an unknown member': [
    () => sealed(added(SETTINGS, named('triggers/000001.ndjson', ''))),
    /triggers.* has a name/,
  ],
  'with a member twice': [
    () => sealed(added(SETTINGS, named('settings.json', '{}'))),
    /settings\.json.* comes again/,
  ],
  'with a part that is missing': [
    () => sealed(added(SETTINGS, named('users/000002.ndjson', ''))),
    /out of order/,
  ],
  'with members in another order': [
    () => sealed(added(DOCUMENTS, named('users/000001.ndjson', ''))),
    /users.* belongs before/,
  ],
  'with something behind its end': [
    () => compressed(Buffer.concat([tarOf(members), Buffer.from('more')])),
    /follows the end/,
  ],
  'with a member behind the list': [
    () => compressed(tarOf([...members, named('users/000001.ndjson', '')])),
    /follows the list/,
  ],
  'with the columns of another tenant': [
    () =>
      sealed(
        added(/^secrets/, named('users/000001.ndjson', JSON.stringify({ ...USER, tenant_id: 'ten_other' }))),
      ),
    /users\/000001\.ndjson.*another form/,
  ],
  'with documents of another workspace': [
    () =>
      sealed(
        changed(DOCUMENTS, (text) =>
          text.replace('{"id"', '{"workspace_id":"ws_other","_tenant":"ten_other","id"'),
        ),
      ),
    /documents\/tasks.*line 1/,
  ],
  'with a document that breaks its schema': [
    () => sealed(changed(DOCUMENTS, (text) => text.replace('"title"', '"name"'))),
    /documents\/tasks\/000001\.ndjson.*line 1.*title/,
  ],
  'with a time that is none': [
    () =>
      sealed(
        changed(DOCUMENTS, (text) => text.replace(/"_created_at":"[^"]+"/, '"_created_at":"yesterday"')),
      ),
    /line 1.*_created_at/,
  ],
  'with a key above its bucket': [
    () => sealed(changed(OBJECTS, (text) => text.replace('"key":"a"', '"key":"../a"'))),
    /objects\/000001\/000001/,
  ],
  'with a header that ends the response': [
    () =>
      sealed(
        changed(OBJECTS, (text) =>
          text.replace('"headers":{', '"headers":{"cache-control":"a\\r\\nset-cookie: b",'),
        ),
      ),
    /objects\/000001\.ndjson.*another form/,
  ],
  'with more bytes than its object': [
    () => sealed(changed(/^objects\/000001\/000001/, (text) => `${text}more`)),
    /objects\/000001\/000001.*9 bytes.*5/,
  ],
  'with bytes of no object': [
    () => sealed([...contents(), named('objects/000001/000002')]),
    /000002.*in no list/,
  ],
  'with an argument among the settings': [
    () => sealed(changed(SETTINGS, (text) => text.replace('"settings":{', '"settings":{"dry_run":true,'))),
    /settings\.json.*dry_run does not move with a workspace/,
  ],
  'with addresses that operators allow': [
    () =>
      sealed(
        changed(SETTINGS, (text) =>
          text.replace('"settings":{', '"settings":{"egress":{"allow":["localhost:1"]},'),
        ),
      ),
    /settings\.json.*egress does not move with a workspace/,
  ],
  'with two users of one address': [
    () =>
      sealed(
        added(
          /^secrets/,
          named(
            'users/000001.ndjson',
            [USER, { ...USER, id: USER.id.replace(/.$/, 'w') }]
              .map((user) => JSON.stringify(user))
              .join('\n'),
          ),
        ),
      ),
    /users\/000001\.ndjson.*same address/,
  ],
  'with a document that is not JSON': [
    () => sealed(changed(DOCUMENTS, () => '{"title":\n')),
    /documents\/tasks/,
  ],
  'with an object without its bytes': [
    () => sealed(contents().filter(({ name }) => !/^objects\/000001\/000001/.test(name))),
    /bytes of 1 objects are missing/,
  ],
  'with other counts than it has': [() => sealed(contents(), {}), /manifest\.ndjson.*counts 0 .*has 1/],
  'that unpacks to a gigabyte of lines': [
    () => sealed(added(SETTINGS, named('users/000001.ndjson', Buffer.alloc(150_000_000)))),
    /users\/000001\.ndjson.*150000000 bytes/,
  ],
  'that unpacks to more than it may': [
    () =>
      sealed([
        ...contents(),
        named('objects/000002.ndjson', objectLine({ key: 'b', size: HUGE })),
        named('objects/000002/000001', Buffer.alloc(HUGE)),
      ]),
    /unpacks to more/,
  ],
}

test.each(Object.entries(CASES))(
  'archive %s: imported: refused with the reason',
  async (_, [make, detail]) => {
    const problem = await problemOf(workspace, make())
    expect([problem.code, problem.detail]).toEqual(['archive_invalid', expect.stringMatching(detail)])
  },
)

test('archives that were refused: some time later: nothing is left of them but tombstones', async () => {
  const { tenantId, workspaceId } = workspace
  await eventually(async () => {
    const left = await asSuperuser<{ id: string }>(
      "select id from tenon.workspaces where tenant_id = $1 and id <> $2 and state <> 'deleted'",
      [tenantId, workspaceId],
    )
    return left.length === 0 ? true : undefined
  }, 120_000)
  const counts = await asSuperuser<{ documents: number; users: number; objects: number; buckets: number }>(
    `select (select count(*)::int from tenon.schemas where tenant_id = $1) as documents,
      (select count(*)::int from tenon.users where tenant_id = $1) as users,
      (select count(*)::int from tenon.objects where tenant_id = $1) as objects,
      (select count(*)::int from tenon.buckets where tenant_id = $1) as buckets`,
    [tenantId],
  )
  expect(counts).toEqual([{ documents: 1, users: 0, objects: 1, buckets: 1 }])
})

/** Exports what a workspace knows of a user, for the user or for the app that serves them. */

import Type, { type TSchema } from 'typebox'
import { Input, Ref, workspaceOperation } from '../../access/operation-builders.ts'
import { revealing, seesPayloads } from '../../access/payload-access.ts'
import { payload, withoutPayloads } from '../../access/payload-schemas.ts'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { ByteReply } from '../../core/bytes.ts'
import { WRITERS_AND_USERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { queryDocuments } from '../collections/documents-api.ts'
import { collectionNames } from '../collections/transfer.ts'
import { Approval } from '../flows/approvals/approval-shape.ts'
import { readProfile } from '../identity/users/users-api.ts'
import { presignObject } from '../objects/links.ts'
import { allPages, allRows, NDJSON, ndjsonDownload } from '../operation-helpers.ts'
import {
  findPersonIn,
  isBehind,
  isBulkChangeOf,
  isCallerOf,
  isInApproval,
  isOwn,
  ownedBy,
  type Person,
} from './personal-data.ts'

const asService = privilege('people.own')
const asAdmin = privilege('people.records')

const PAGE = 200
const LINK_SECONDS = 86_400

export const exportUser = workspaceOperation({
  name: 'user.export_data',
  payloads: 'left out',
  summary: 'Export what the workspace knows of a user as NDJSON; a user exports its own data only',
  roles: WRITERS_AND_USERS,
  recentProof: true,
  scope: 'collections:read',
  conditionalScopes: (['objects:read', 'flows:read', 'functions:read'] as const).map((scope) => ({
    scope,
    when: () => true,
  })),
  input: Input({ id: Ref('user') }),
  output: Type.Unsafe<ByteReply>(
    Type.Unknown({
      description:
        'One record per line, `{"type": "profile" | "document" | "object" | "execution" | "run" | "bulk_change" | "approval", …}`, the last one `{"type": "end", "records": n}`: without it the export is not complete. An object has a link that works for a day.',
    }),
  ),
  http: { method: 'GET', path: '/v1/users/{id}/export', reply: 'bytes', bytesType: NDJSON },
  run: async (scope, { id }): Promise<ByteReply> => {
    const { role, user } = scope.actor
    if (role === 'user' && user?.id !== id)
      throw new Problem('forbidden', { detail: 'A user can export only the data of that user.' })
    const admin = asAdmin(scope)
    const profile = await readProfile(admin, id)
    if (profile === undefined) throw notFound('user')
    const person = await findPersonIn(role === 'user' ? asService(scope) : scope, id)
    const download = ndjsonDownload(id, lines(records({ caller: scope, admin, person, profile })))
    return role !== 'user' && seesPayloads(scope.actor) ? revealing(download, scope.ref) : download
  },
})

interface Export {
  readonly caller: WorkspaceScope
  readonly admin: WorkspaceScope
  readonly person: Person
  readonly profile: object
}

type ExportRecord = { readonly type: string } & Readonly<Record<string, unknown>>

async function* lines(all: AsyncIterable<ExportRecord>): AsyncGenerator<Buffer> {
  let count = 0
  for await (const record of all) {
    count += 1
    yield Buffer.from(`${JSON.stringify(record)}\n`)
  }
  yield Buffer.from(`${JSON.stringify({ type: 'end', records: count })}\n`)
}

async function* records({ caller, admin, person, profile }: Export): AsyncGenerator<ExportRecord> {
  yield { type: 'profile', data: profile }
  yield* documents(person)
  yield* objects(caller, person)
  // A service key sees payloads of what others have started only with the scope for it; users see those of what they have started themselves:
  // what a change of theirs has caused works with data that they may not read.
  const isShown = (record: { readonly relation?: string }) =>
    seesPayloads(caller.actor) || (caller.actor.role === 'user' && record.relation !== 'caused')
  for (const [type, { shape, page }] of Object.entries(RECORDS)) {
    const read = (after: string) => admin.rows<{ id: string }>(page(person.userId, after))
    for await (const data of allRows(PAGE, read, ({ id }) => id))
      yield { type, data: withoutPayloads(shape, data, isShown) }
  }
}

async function* documents(person: Person): AsyncGenerator<ExportRecord> {
  for await (const collection of collectionNames(person.service)) {
    const read = (from: { readonly after?: string }) =>
      queryDocuments.run(person.service, { ...ownedBy(person, collection), limit: PAGE, ...from })
    for await (const data of allPages(read)) yield { type: 'document', collection, data }
  }
}

interface ObjectRow {
  readonly bucket: string
  readonly key: string
  readonly size: number
  readonly modified_at: Date
}

async function* objects(caller: WorkspaceScope, person: Person): AsyncGenerator<ExportRecord> {
  const read = (after: string) =>
    person.service.rows<ObjectRow>(sql`
      select b.name as bucket, o.key, o.size, o.modified_at from objects o cross join buckets b
      where ${isOwn(person)} and o.key > ${after} order by o.key limit ${PAGE}`)
  for await (const { bucket, key, size, modified_at } of allRows(PAGE, read, (row) => row.key)) {
    const data = { bucket, key, size, last_modified: modified_at, ...(await linkTo(caller, bucket, key)) }
    yield { type: 'object', data }
  }
}

/** Null for an object that the caller may not read, such as one that a rule of the workspace hides from its creator. */
async function linkTo(caller: WorkspaceScope, bucket: string, key: string) {
  try {
    const { url, expires_at } = await presignObject.run(caller, { bucket, key, expires_in: LINK_SECONDS })
    return { url, expires_at }
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return { url: null, expires_at: null }
    throw error
  }
}

interface RecordType {
  /** What of a record is a payload. */
  readonly shape: TSchema
  readonly page: (userId: string, after: string) => Sql
}

const Payload = Type.Unknown(payload())

const RELATION = (userId: string): Sql =>
  sql`case when started_by = ${userId} then 'started' else 'caused' end as relation`

/** Records that name the user, by type. */
const RECORDS: Readonly<Record<string, RecordType>> = {
  execution: {
    shape: Type.Object({ input: Payload, output: Payload }),
    page: (userId, after) => sql`
    select id, flow_id, version, status, ${RELATION(userId)}, input, output, started_at, ended_at from executions
    where ${isBehind(userId)} and id > ${after} order by id limit ${PAGE}`,
  },
  run: {
    shape: Type.Object({ input: Payload, result: Payload }),
    page: (userId, after) => sql`
    select id, function_id, version, status, ${RELATION(userId)}, input, result, created_at, ended_at from function_runs
    where ${isCallerOf(userId)} and id > ${after} order by id limit ${PAGE}`,
  },
  bulk_change: {
    shape: Type.Object({ request: Payload }),
    page: (userId, after) => sql`
    select id, collection, verb, status, case when ${userId} = owner then 'started' else 'caused' end as relation, request,
      matched::integer, changed::integer, failed::integer, created_at, ended_at from bulk_changes
    where ${isBulkChangeOf(userId)} and id > ${after} order by id limit ${PAGE}`,
  },
  approval: {
    shape: Type.Pick(Approval, ['title', 'decisions']),
    page: (userId, after) => sql`
    select id, execution_id, name, title, status, asked_at, ended_at,
      (select coalesce(jsonb_agg(d), '[]') from jsonb_array_elements(decisions) d where d ->> 'by' = ${userId}) as decisions
    from approvals where id > ${after} and ${isInApproval(userId)} order by id limit ${PAGE}`,
  },
}

/** Host names of workspaces: claim one, prove by DNS that it is yours, list and delete them. */

import { randomBytes } from 'node:crypto'
import Type, { type Static } from 'typebox'
import type { AuditEvent } from '../../../access/audit/entry.ts'
import { platformEvent } from '../../../access/audit/throttle.ts'
import { effectOnce } from '../../../access/effect-once.ts'
import { adminOperation, Id, Input, OptionalTime, Ref, Time } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { dnsOf, hostNamesOf, isOwnHost } from '../../../access/scope-services.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import { canonicalHost, PROOF_LABEL } from '../../../infra/host-name.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { bodyProblem, conflictIf, findRow, listPage } from '../../operation-helpers.ts'
import { ACTIVE, inactiveProblem } from '../active.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { HOST_ROUTES } from '../resources/host-resources.ts'
import { findWorkspace } from '../tenants.ts'

const HostName = Type.String({
  minLength: 1,
  maxLength: 253,
  description:
    'Host name, such as `api.shop.example`. Letter case and a final dot do not count; other scripts than Latin are stored in their ASCII form. No wildcard, no IP address, no name of the platform.',
})

const Host = component(
  'Host',
  Type.Object({
    host: Type.String(),
    workspace_id: Id('ws'),
    record: Type.Object(
      { name: Type.String(), type: Type.Literal('TXT'), value: Type.String() },
      { description: 'The DNS record that proves the name. It stays as long as the workspace has the name.' },
    ),
    verified_at: Type.Union(OptionalTime.anyOf, {
      description:
        'Time at which the proof was found. `null`: it was not found yet, or another workspace has proved the name since.',
    }),
    created_at: Time,
  }),
  {
    host: 'api.tennis.example',
    workspace_id: EXAMPLE_ID.workspace,
    record: { name: '_tenon.api.tennis.example', type: 'TXT', value: 'tenon-verify=riverside' },
    verified_at: EXAMPLE_TIME.updated,
    created_at: EXAMPLE_TIME.created,
  },
)
type Host = Static<typeof Host>

const COLUMNS = sql`host, workspace_id, json_build_object('name', ${`${PROOF_LABEL}.`} || host, 'type', 'TXT', 'value', proof) as record,
  verified_at, created_at`

const PATH = '/v1/workspaces/{id}/hosts'
const ONE = { id: Ref('workspace'), host: HostName }

interface Place {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
}

const isHost = (workspaceId: string, host: string): Sql =>
  sql`workspace_id = ${workspaceId} and host = ${canonicalHost(host) ?? ''}`

export const createHost = adminOperation({
  name: 'host.create',
  summary: 'Create a host name of a workspace; it counts once the DNS record in the response was verified',
  roles: ADMINS,
  input: Input(ONE),
  output: Host,
  http: {
    ...{ method: 'POST', path: PATH, body: '*', status: () => 201 },
    location: ({ host, workspace_id }) => `/v1/workspaces/${workspace_id}/hosts/${host}`,
  },
  run: (scope, { id, host: text }) => {
    const host = requireHost(scope, text)
    const { hostsMax } = TENANT_LIMITS
    return effectOnce(scope, async (inside) => {
      const made = await inside.row<Host>(sql`
        insert into hosts (tenant_id, workspace_id, host, proof)
        select tenant_id, id, ${host}, ${newProof()} from workspaces
        where id = ${id} and ${ACTIVE} and (select count(*) from hosts where workspace_id = ${id}) < ${hostsMax}
        returning ${COLUMNS}`)
      if (made !== undefined) return made
      const { n } = await findRow<{ n: number }>(
        inside,
        'workspace',
        sql`select count(*)::integer as n from hosts where workspace_id = ${id}`,
      )
      if (n < hostsMax) throw await inactiveProblem(inside, id)
      throw new Problem('state_conflict', { detail: `A workspace has at most ${hostsMax} host names.` })
    }).catch(conflictIf({ hosts_pkey: `The workspace has claimed ${host} already.` }))
  },
})

export const listHosts = adminOperation({
  name: 'host.list',
  summary: 'List the host names of a workspace',
  roles: ADMINS,
  input: Input({ ...PageInput, id: Ref('workspace') }),
  output: PageOf(Host),
  http: { method: 'GET', path: PATH },
  run: async (scope, { id, ...input }) => {
    await findWorkspace(scope, id)
    return listPage<Host>(scope, input, sql`select ${COLUMNS} from hosts where workspace_id = ${id}`, 'host')
  },
})

export const verifyHost = adminOperation({
  name: 'host.verify',
  summary:
    'Verify a host name by its proof in DNS; within 5 s, every process serves requests for the name for the workspace alone',
  roles: ADMINS,
  input: Input(ONE),
  output: Host,
  http: { method: 'POST', path: `${PATH}/{host}/verify`, body: '*' },
  run: async (scope, { id, host }) => {
    const found = await findRow<Place & Host>(
      ...([
        scope,
        'host name',
        sql`select tenant_id, ${COLUMNS} from hosts where ${isHost(id, host)}`,
      ] as const),
    )
    const ref: WorkspaceRef = { tenantId: found.tenant_id, workspaceId: found.workspace_id }
    const records = await dnsOf(scope).texts(found.record.name)
    const former = await hostNamesOf(scope, ref).verify(ref, found.host, records)
    // Its admins learn that it has lost the name, and not to whom.
    if (former !== undefined) await scope.audit.append(lossOf(former, found.host))
    await HOST_ROUTES.apply(scope, ref)
    return findRow<Host>(scope, 'host name', sql`select ${COLUMNS} from hosts where ${isHost(id, host)}`)
  },
})

export const deleteHost = adminOperation({
  name: 'host.delete',
  summary: 'Delete a host name; within 5 s, requests for it are no longer served for the workspace',
  roles: ADMINS,
  input: Input(ONE),
  output: component('DeletedHost', Type.Object({ host: Type.String(), deleted: Type.Literal(true) }), {
    host: 'api.tennis.example',
    deleted: true,
  }),
  http: { method: 'DELETE', path: `${PATH}/{host}` },
  run: async (scope, { id, host: text }) => {
    const gone = await scope.row<Place & { host: string }>(
      sql`delete from hosts where ${isHost(id, text)} returning host, tenant_id, workspace_id`,
    )
    if (gone === undefined) {
      // The route of a name that was deleted while the gateway was away goes with the repetition.
      const place = await findRow<Place>(
        scope,
        'workspace',
        sql`select tenant_id, id as workspace_id from workspaces where id = ${id} and state <> 'deleted'`,
      )
      await HOST_ROUTES.apply(scope, { tenantId: place.tenant_id, workspaceId: place.workspace_id })
      throw notFound('host name')
    }
    const { host, tenant_id: tenantId, workspace_id: workspaceId } = gone
    hostNamesOf(scope, { tenantId }).forget(host)
    await HOST_ROUTES.apply(scope, { tenantId, workspaceId })
    return { host, deleted: true as const }
  },
})

const lossOf = (owner: WorkspaceRef, host: string): AuditEvent => ({
  ...platformEvent({ owner, operation: 'host.lose', outcome: 'done' }),
  target: `/v1/workspaces/${owner.workspaceId}/hosts/${host}`,
})

/** 192 random bits, of this claim alone: who can read the records of another name learns nothing for this one. */
const newProof = (): string => `tenon-host-proof=${randomBytes(24).toString('base64url')}`

/** @returns the stored form @throws Problem `validation_failed` */
function requireHost(scope: AdminScope, text: string): string {
  const host = canonicalHost(text)
  if (host === undefined)
    throw bodyProblem(
      '/host',
      'is no host name of at least two labels, such as `api.shop.example`; wildcards, IP addresses, ports and paths are none',
    )
  if (isOwnHost(scope, host))
    throw bodyProblem('/host', 'is a name of the platform itself, or below one; use a name of your own')
  return host
}

/** Services that a scope carries: functions that reach a feature's servers with the tenant, workspace and rights of a scope. */

import { hkdfSync } from 'node:crypto'
import { Problem } from '../core/problem.ts'
import type { TenantId, TenantRef, WorkspaceRef } from '../core/tenant.ts'
import type { Caddy } from '../infra/caddy.ts'
import { purposeIn } from '../infra/crypto/secrets.ts'
import type { DnsRecords } from '../infra/dns-records.ts'
import type { HealthReport } from '../infra/health-report.ts'
import type { Bounds, Inbound, Outbound, Sender } from '../infra/http-client/egress.ts'
import type { Organizations } from '../infra/keycloak.ts'
import type { Buckets } from '../infra/s3/buckets.ts'
import { PayloadReader } from '../infra/temporal/payload-reader.ts'
import type { TenantWorkflows } from '../infra/temporal/temporal.ts'
import type { Ran, ThreadTask } from '../infra/thread-pool.ts'
import {
  type LinkedRequest,
  lastsUntil,
  makerOf,
  type ObjectLink,
  signLink,
} from './authentication/object-links.ts'
import type { HostNames } from './host-names.ts'
import { internalsOf, type PlatformServices } from './internals.ts'
import type { McpToolCall } from './rate-limit/limiter.ts'
import type { AdminScope, Scope, WorkspaceScope } from './scope.ts'

const servicesOf = (scope: Scope): PlatformServices => internalsOf(scope).services

/** @throws Problem `not_found` unless the admin may access the tenant */
function servicesFor(scope: AdminScope, tenantId: TenantId): PlatformServices {
  if (!scope.reaches({ tenantId })) throw new Problem('not_found')
  return servicesOf(scope)
}

export function workflowsOf(scope: WorkspaceScope): TenantWorkflows {
  return servicesOf(scope).temporal.workflowsOf(scope.ref)
}

/** Workflows of a tenant as a whole, or of one of its workspaces: provisioning. @throws Problem `not_found` */
export function tenantWorkflowsOf(scope: AdminScope, ref: TenantRef): TenantWorkflows {
  return servicesFor(scope, ref.tenantId).temporal.workflowsOf(ref)
}

/** Creates, empties and removes buckets at the object store. */
export const bucketsOf = (
  scope: AdminScope,
): Pick<Buckets, 'requireFree' | 'readState' | 'make' | 'remove' | 'count' | 'removeSome'> =>
  servicesOf(scope).buckets

/** Gives and forgets host names of workspaces. @throws Problem `not_found` unless the admin may access the tenant */
export const hostNamesOf = (
  scope: AdminScope,
  { tenantId }: Pick<TenantRef, 'tenantId'>,
): Pick<HostNames, 'verify' | 'forget'> => servicesFor(scope, tenantId).hostNames

/** True for a host name of the platform, which no workspace can have. */
export const isOwnHost = (scope: AdminScope, host: string): boolean => servicesOf(scope).hostNames.isOwn(host)

/** The gateway that routes host names; undefined if the installation has none. */
export const caddyOf = (scope: AdminScope): Caddy | undefined => servicesOf(scope).caddy

/** The organizations of an external realm; undefined if the installation has none. */
export const organizationsOf = (scope: AdminScope): Organizations | undefined =>
  servicesOf(scope).organizations

/** Looks DNS up. */
export const dnsOf = (scope: AdminScope): DnsRecords => servicesOf(scope).dns

/** The state of the servers behind this process. */
export const readHealth = (scope: AdminScope): Promise<HealthReport> => servicesOf(scope).health.read()

/** True if documents are also stored outside PostgreSQL, where its triggers do not count them. */
export function hasDocumentStore(scope: AdminScope | WorkspaceScope): boolean {
  return servicesOf(scope).documents !== undefined
}

/** The external issuers (`iss`) whose tokens may name the tenant of the scope. */
export const trustedIssuersOf = (scope: WorkspaceScope): string[] =>
  servicesOf(scope)
    .trustedIssuers.filter(({ tenants }) => tenants?.has(scope.ref.tenantId) ?? true)
    .map(({ issuer }) => issuer)

/** False if an account, user or client of the platform was deleted or disabled. Other issuers are not asked. */
export const isSubjectActive = (scope: WorkspaceScope, subject: string): Promise<boolean> =>
  servicesOf(scope).subjectStatus.isActive(subject)

/** Payloads of Temporal, decrypted. */
export function payloadsOf(scope: AdminScope): PayloadReader {
  return new PayloadReader(servicesOf(scope).codec, scope)
}

/** The default number of a tenant's event streams, and its open ones; null if Valkey is unavailable. */
export async function countStreams(scope: AdminScope, tenantId: TenantId) {
  return servicesFor(scope, tenantId).limiter.countStreams(tenantId)
}

/**
 * Charges one call of a tool that has a rate of its own.
 * @throws Problem `rate_limited` with the seconds to wait
 */
export async function limitMcpTool(
  scope: WorkspaceScope,
  call: Pick<McpToolCall, 'serverId' | 'tool' | 'callsPerMinute'>,
): Promise<void> {
  const { tenantId } = scope.ref
  const { refused } = await servicesOf(scope).limiter.limitMcpTool({ tenantId, ...call })
  if (refused !== undefined) throw refused
}

/** The `typ` of the signature of a manifest. */
const MANIFEST_SIGNATURE = 'tenon-mcp-manifest+jws'

/** Signs a published version of an MCP server. @returns a compact JWS with `iss` and the claims as payload */
export function signManifest(
  scope: WorkspaceScope,
  claims: {
    readonly server_id: string
    readonly version: number
    /** SHA-256 of the canonical manifest, hex. */
    readonly hash: string
    /** RFC 3339. */
    readonly published_at: string
  },
): Promise<string> {
  const { signingKeys, publicUrl } = servicesOf(scope)
  const iss = `${publicUrl}/auth`
  const { workspaceId: workspace_id } = scope.ref
  return signingKeys.sign(MANIFEST_SIGNATURE, { iss, workspace_id, ...claims })
}

/** The `typ` of the signature of the report of a deletion. */
const DELETION_SIGNATURE = 'tenon-deletion+jws'

/** Signs the report of the deletion of a tenant or a workspace. @returns a compact JWS with `iss` and the report as payload */
export function signDeletion(scope: AdminScope, report: object): Promise<string> {
  const { signingKeys, publicUrl } = servicesOf(scope)
  return signingKeys.sign(DELETION_SIGNATURE, { iss: `${publicUrl}/auth`, ...report })
}

/** Encrypts for this workspace and this purpose only. */
export function encryptFor(scope: WorkspaceScope, purpose: string, plain: Buffer): Buffer {
  return servicesOf(scope).secrets.seal(purposeIn(scope.ref, purpose), plain)
}

/** As {@link encryptFor}, for an admin of the workspace. @throws Problem `not_found` unless the admin may access it */
export function encryptIn(scope: AdminScope, ref: WorkspaceRef, purpose: string, plain: Buffer): Buffer {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  return servicesOf(scope).secrets.seal(purposeIn(ref, purpose), plain)
}

/** @throws Error if it was encrypted for another workspace or purpose, or changed */
export function decryptFor(scope: WorkspaceScope, purpose: string, encrypted: Buffer): Buffer {
  return servicesOf(scope).secrets.open(purposeIn(scope.ref, purpose), encrypted)
}

/** Derives a secret from a purpose: 43 letters of base64url. */
export type Derive = (purpose: string) => string

/**
 * Derives secrets of the workspace from the first data key of its tenant, so that they last: they stay the same when the master key
 * is replaced, and end with the tenant.
 * @throws Problem `payload_unreadable` if the tenant's keys were destroyed, `dependency_unavailable`
 */
export async function lastingSecrets(scope: WorkspaceScope): Promise<Derive> {
  const { secret } = await servicesOf(scope).payloadKeys.of(`${scope.ref.tenantId}.1`)
  return (purpose) => {
    const info = `tenon:derive:${purposeIn(scope.ref, purpose)}`
    return Buffer.from(hkdfSync('sha256', secret, '', info, 32)).toString('base64url')
  }
}

/**
 * Signs a link to an object of the workspace, which acts as the credential of the request that makes it.
 * @returns its public URL
 * @throws Problem `forbidden` if the credential can make none
 */
export function signObjectLink(
  scope: WorkspaceScope,
  path: string,
  request: LinkedRequest,
  { expiresMs, terms }: Pick<ObjectLink, 'expiresMs' | 'terms'>,
): { readonly url: string; readonly expiresMs: number } {
  const { subject, credential } = scope.actor
  const maker = makerOf(subject, credential)
  const until = Math.min(expiresMs, lastsUntil(maker))
  const token = signLink(servicesOf(scope).secrets, request, {
    ref: scope.ref,
    maker,
    expiresMs: until,
    terms,
  })
  return { url: addressOf(scope, `${path}?link=${token}`), expiresMs: until }
}

/** Runs a task in a worker thread, in the share of the scope's tenant. @throws Problem `overloaded` */
export function runInThread<T>(scope: Scope, task: ThreadTask): Promise<Ran<T>> {
  const { services, context } = internalsOf(scope)
  return services.threads.run(context.tenant, task)
}

/** The public URL of a path. */
export function addressOf(scope: WorkspaceScope, path: string): string {
  return `${servicesOf(scope).publicUrl}${path}`
}

/** The public URL of the platform. */
export const publicUrlOf = (scope: AdminScope): string => servicesOf(scope).publicUrl

/** The origin of the platform's public URL. */
export const originOf = (scope: WorkspaceScope): string => new URL(servicesOf(scope).publicUrl).origin

/**
 * Sends one HTTP request through the egress guard, on connections that this workspace alone uses. Redirects are not followed.
 * @param sender the addresses besides the public Internet that the workspace may reach
 * @throws Problem as {@link Egress.send} does
 */
export function sendHttp(
  scope: WorkspaceScope,
  outbound: Outbound,
  sender: Omit<Sender, 'owner'>,
  bounds: Bounds,
): Promise<Inbound> {
  const { tenantId, workspaceId } = scope.ref
  return servicesOf(scope).egress.send(outbound, { ...sender, owner: `${tenantId}:${workspaceId}` }, bounds)
}

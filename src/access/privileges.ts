/**
 * Raises rights for named consumers. `PRIVILEGES` lists each opener of a scope with other rights than its caller's, and each service
 * behind scopes, with the one module that may have it. `docs/reference/policy.txt` prints the table.
 */

import {
  ADMINS,
  DATA_ROLES,
  DEVELOPERS,
  EVERYBODY,
  type Role,
  VIEWERS,
  WRITERS,
  WRITERS_AND_USERS,
} from '../core/policy.ts'
import type { TenantRef, WorkspaceRef } from '../core/tenant.ts'
import { type PlatformServices, servicesBehind } from './internals.ts'
import { MCP_PRIVILEGES } from './mcp-privileges.ts'
import {
  asSubject,
  ifActive,
  inAnyState,
  inRole,
  inWorkspace,
  ofTenant,
  purge,
  type Snapshot,
  snapshot,
  tables,
  withLookups,
} from './openers.ts'
import type { Lookups, Openers, Privilege, Raise, RoleAccess } from './privilege-kinds.ts'
import type { AdminScope, CallerScope, Scope, WorkspaceScope } from './scope.ts'

export type { Snapshot, WorkspaceSnapshot } from './openers.ts'
export type { Privilege } from './privilege-kinds.ts'

const ADMIN = ['workspace_admin'] as const satisfies readonly Role[]
const SERVICE = ['service'] as const satisfies readonly Role[]
const WORK = ['service', 'workspace_admin'] as const satisfies readonly Role[]

/** By consumer. A new row is a decision about isolation; what it may do is in its reason. */
export const PRIVILEGES = {
  'collections.rules': {
    module: 'features/collections/resolve-store',
    opener: 'inRole',
    from: ['user', 'anon'],
    to: SERVICE,
    reason: 'Looks up values for rules, and tells a hidden document from a missing one.',
  },
  'collections.lookups': {
    module: 'features/collections/resolve-store',
    opener: 'withLookups',
    from: ['user'],
    to: ['user'],
    reason: 'Tells row-level security the values that rules look up.',
  },
  'collections.cascades': {
    module: 'features/collections/references/cascade',
    opener: 'inRole',
    from: ['user', 'anon'],
    to: SERVICE,
    reason: 'Deletes or changes what refers to a document that its caller may delete, as references declare.',
  },
  'collections.explain': {
    module: 'features/collections/rules/explain-access',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason: 'Evaluates rules on a document for an admin, who gets the decision and no document.',
  },
  'collections.validate': {
    module: 'features/collections/schemas/existing-documents',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason: 'Checks stored documents against a new schema; returns ids and violations.',
  },
  'collections.references': {
    module: 'features/collections/references/foreign-keys',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason:
      'Finds documents that refer to one that is not there, before a reference is declared; returns their ids.',
  },
  'collections.tables': {
    module: 'features/collections/schemas/declared-tables',
    opener: 'tables',
    from: DEVELOPERS,
    reason: 'Creates, alters and drops the table of a declaration in the transaction that changes its row.',
  },
  'collections.emptiness': {
    module: 'features/collections/schemas/declared-tables',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason: 'Asks whether a collection has any document in PostgreSQL, before it is declared or deleted.',
  },
  'collections.infer': {
    module: 'features/collections/schemas/infer-schema',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason: 'Reads some documents to propose a schema; returns names and types of fields, and no values.',
  },
  'collections.whole_tables': {
    module: 'features/collections/lifecycle/whole-collection',
    opener: 'tables',
    from: DEVELOPERS,
    reason: 'Drops, empties and renames the table of a declaration in the transaction that changes its row.',
  },
  'collections.whole_documents': {
    module: 'features/collections/lifecycle/whole-collection',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason:
      'Counts, deletes and renames all documents of a collection that is not declared; returns numbers only.',
  },
  'collections.users': {
    module: 'features/collections/lifecycle/collection-users',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: ADMIN,
    reason: 'Names what uses a collection that is dropped, emptied or renamed, and publishes that change.',
  },
  'collections.occupied': {
    module: 'features/collections/mongo/documents',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: SERVICE,
    reason: 'Asks whether a collection has any document, before it is declared or deleted.',
  },
  'collections.documents': {
    module: 'features/collections/mongo/documents',
    opener: 'service',
    service: 'documents',
    reason: 'Opens the documents of the workspace in MongoDB.',
  },
  'objects.store': {
    module: 'features/objects/blobs',
    opener: 'service',
    service: 'objectClients',
    reason: 'Opens a client under a session of the workspace at the object store.',
  },
  'objects.public': {
    module: 'api/public-objects',
    opener: 'ifActive',
    to: ['anon'],
    reason: 'Reads objects that a workspace has opened to the public, for requests without a credential.',
  },
  'objects.images': {
    module: 'features/objects/images/converted-images',
    opener: 'service',
    service: 'convertedImages',
    reason: 'Converts images in the share of the tenant.',
  },
  'objects.kept_images': {
    module: 'features/objects/images/converted-images',
    opener: 'inRole',
    from: DATA_ROLES,
    to: SERVICE,
    reason: 'Keeps what became of an image that its caller may read.',
  },
  'identity.admin': {
    module: 'features/identity/identity-services',
    opener: 'service',
    service: 'identityAdmin',
    reason:
      'Invites people, mails links, forgets cached subjects and clients, rotates signing keys, and encrypts secrets of providers.',
  },
  'identity.own': {
    module: 'features/identity/sessions/sessions-api',
    opener: 'service',
    service: 'ownAccess',
    reason: 'Lists and ends sessions and consents of the account or user that calls.',
  },
  'events.streams': {
    module: 'features/events/events',
    opener: 'service',
    service: 'streams',
    reason: 'Publishes and reads the streams of the workspace and its tenant.',
  },
  'flows.keys': {
    module: 'features/flows/executions/key-operations',
    opener: 'inRole',
    from: WRITERS,
    to: ADMIN,
    reason: 'Starts, reads and decides for keys and tokens with the scope for it.',
  },
  'flows.records': {
    module: 'activities/flow/record-sink',
    opener: 'inAnyState',
    to: ADMIN,
    reason: 'Writes the record of the execution whose workflow sends it.',
  },
  'flows.callbacks': {
    module: 'api/callbacks',
    opener: 'ifActive',
    to: ADMIN,
    reason: 'Delivers a callback whose token was verified.',
  },
  'flows.webhooks': {
    module: 'api/webhooks',
    opener: 'ifActive',
    to: ADMIN,
    reason: 'Starts an execution for a delivery whose signature was verified.',
  },
  'approvals.links': {
    module: 'api/approval-routes',
    opener: 'ifActive',
    to: ADMIN,
    reason: 'Shows and decides the approval that a link names.',
  },
  'background.starts': {
    module: 'activities/flow/background-work',
    opener: 'ifActive',
    to: ADMIN,
    reason: 'Starts flows and functions for events, and asks whether a workspace is active.',
  },
  'background.tasks': {
    module: 'activities/flow/background-work',
    opener: 'inAnyState',
    to: WORK,
    reason: 'Reconciles, expires and delivers in the workspace of the record.',
  },
  'background.tenants': {
    module: 'activities/flow/background-work',
    opener: 'ofTenant',
    to: ['tenant_admin'],
    reason: 'Starts the purge of a tenant or workspace whose time to be restored is over.',
  },
  'activities.calls': {
    module: 'activities/tenant-interceptor',
    opener: 'ifActive',
    to: WORK,
    reason: 'Makes the effects of a workflow in the workspace that its id names.',
  },
  'activities.code': {
    module: 'activities/tenant-interceptor',
    opener: 'ifActive',
    to: DATA_ROLES,
    reason: 'Calls the platform for code of a function, with the rights of its caller or its own scopes.',
  },
  'activities.records': {
    module: 'activities/tenant-interceptor',
    opener: 'inAnyState',
    to: WORK,
    reason: 'Reads and records what a workflow has done.',
  },
  'activities.tenants': {
    module: 'activities/tenant-interceptor',
    opener: 'ofTenant',
    to: ['tenant_admin'],
    reason: 'Provisions, suspends and deletes the tenant that the workflow id names.',
  },
  'people.own': {
    module: 'features/people/export-user',
    opener: 'inRole',
    from: ['user'],
    to: SERVICE,
    reason: 'Reads the documents and objects that a user owns, for that user.',
  },
  'people.records': {
    module: 'features/people/export-user',
    opener: 'inRole',
    from: WRITERS_AND_USERS,
    to: ADMIN,
    reason:
      'Reads the profile of a user, and executions, runs, bulk changes and approvals that name the user, for that user or a service key.',
  },
  'people.data': {
    module: 'features/people/personal-data',
    opener: 'inWorkspace',
    from: ADMINS,
    to: SERVICE,
    reason:
      'Counts, deletes or renames what a user has stored, for an admin who deletes the user; returns numbers only.',
  },
  'people.traces': {
    module: 'features/people/anonymous-data',
    opener: 'inWorkspace',
    from: ADMINS,
    to: ADMIN,
    reason:
      'Counts executions, runs, bulk changes and approvals that name a user, and replaces the id of one who is made anonymous; returns numbers only.',
  },
  'people.changes': {
    module: 'features/people/anonymous-data',
    opener: 'purge',
    from: ADMINS,
    reason: 'Asks whether changes that name a user wait to be published; returns nothing else of them.',
  },
  'people.page_export': {
    module: 'api/issuer/own-data',
    opener: 'ifActive',
    to: ['user'],
    reason: 'Exports the data of the user who has signed in on the page of the own account.',
  },
  'people.page_deletion': {
    module: 'api/issuer/own-data',
    opener: 'ofTenant',
    to: ['tenant_admin'],
    reason: 'Deletes the user who has signed in on the page of the own account, with all data.',
  },
  'tenants.purge': {
    module: 'features/tenants/purge/owned-rows',
    opener: 'purge',
    from: ['tenant_admin'],
    reason: 'Counts and deletes all rows of a tenant or a workspace that is deleted; returns numbers only.',
  },
  'archives.snapshot': {
    module: 'features/archives/export-archive',
    opener: 'snapshot',
    from: ['tenant_admin'],
    reason:
      'Writes all that a workspace or a tenant has, but its secrets, to an archive, which admins of the tenant may download.',
  },
  'archives.documents': {
    module: 'features/archives/import-archive',
    opener: 'inWorkspace',
    from: ['tenant_admin'],
    to: SERVICE,
    reason:
      'Stores documents and objects of an archive in the workspace that is made of it, which nobody uses yet.',
  },
  'archives.structure': {
    module: 'features/archives/import-archive',
    opener: 'inWorkspace',
    from: ['tenant_admin'],
    to: ADMIN,
    reason: 'Stores flows of an archive in the workspace that is made of it, which nobody uses yet.',
  },
  'archives.store': {
    module: 'features/archives/archive-files',
    opener: 'service',
    service: 'archives',
    reason: 'Writes, reads and removes archives of the tenant of the scope.',
  },
  'functions.start': {
    module: 'features/functions/runs/start-run',
    opener: 'asSubject',
    from: EVERYBODY,
    to: ADMIN,
    reason: 'Starts the workflow of a run whose record the caller could write.',
  },
  'functions.operations': {
    module: 'features/functions/runs/run-operation',
    opener: 'asSubject',
    from: DATA_ROLES,
    to: ADMIN,
    reason: 'Reads a run for the credential that has started it.',
  },
  'functions.keys': {
    module: 'features/functions/runs/key-operations',
    opener: 'asSubject',
    from: WRITERS,
    to: ADMIN,
    reason: 'Reads runs for keys and tokens with the scope for it.',
  },
  'functions.admins': {
    module: 'features/functions/runs/runs-of-function',
    opener: 'inWorkspace',
    from: VIEWERS,
    to: ADMIN,
    reason: 'Reads and redrives runs in the workspace of the function.',
  },
  'functions.slots': {
    module: 'features/functions/runs/start-recorded',
    opener: 'inWorkspace',
    from: DEVELOPERS,
    to: ADMIN,
    reason: 'Gives queued runs the slots that an admin has added.',
  },
  'functions.channels': {
    module: 'features/functions/channels',
    opener: 'service',
    service: 'channels',
    reason: 'Connects the request that waits for a run with the worker that makes it.',
  },
  'runs.watcher': {
    module: 'features/runs/watcher',
    opener: 'service',
    service: 'runWatcher',
    reason: 'Watches executions and runs of the workspace.',
  },
  'runs.kinds': {
    module: 'features/runs/run-kind',
    opener: 'service',
    service: 'runKinds',
    reason: 'Finds what starts and ends a kind of runs.',
  },
  'analytics.meters': {
    module: 'features/analytics/meters',
    opener: 'service',
    service: 'meters',
    reason: 'Counts events of the workspace.',
  },
  'analytics.keys': {
    module: 'features/analytics/analytics-api',
    opener: 'inRole',
    from: WRITERS,
    to: ADMIN,
    reason:
      'Counts what the workspace did and has, for a key or token with the scope for it; returns numbers only.',
  },
  ...MCP_PRIVILEGES,
} as const satisfies Readonly<Record<string, Privilege>>

export type Consumer = keyof typeof PRIVILEGES
type RowOf<C extends Consumer> = (typeof PRIVILEGES)[C]

/** The opener of a consumer, for its roles, or its service of a scope. */
export type Granted<C extends Consumer> =
  RowOf<C> extends {
    readonly opener: infer O extends keyof Openers<Role>
    readonly to: readonly (infer R extends Role)[]
  }
    ? Openers<R>[O]
    : RowOf<C> extends { readonly service: infer S extends keyof PlatformServices }
      ? (scope: Scope | CallerScope) => PlatformServices[S]
      : RowOf<C> extends { readonly opener: 'snapshot' }
        ? typeof snapshot
        : RowOf<C> extends { readonly opener: 'purge' }
          ? typeof purge
          : RowOf<C> extends { readonly opener: 'tables' }
            ? typeof tables
            : never

const granted = new Set<Consumer>()

/**
 * Hands out the privilege of a consumer, once in a process: its module keeps it in a constant that it does not export.
 * @throws TypeError if another module has it already
 */
export function privilege<C extends Consumer>(consumer: C): Granted<C> {
  if (granted.has(consumer))
    throw new TypeError(`the privilege ${consumer} is taken by ${PRIVILEGES[consumer].module}`)
  granted.add(consumer)
  return grant(consumer, PRIVILEGES[consumer]) as Granted<C>
}

function grant(
  consumer: Consumer,
  row: Privilege,
):
  | Openers<Role>[keyof Openers<Role>]
  | typeof tables
  | typeof purge
  | typeof snapshot
  | ((scope: Scope) => unknown) {
  switch (row.opener) {
    case 'service':
      return (scope: Scope | CallerScope) => servicesBehind(scope)[row.service]
    case 'ifActive':
    case 'inAnyState':
    case 'ofTenant':
      return { ifActive, inAnyState, ofTenant }[row.opener]
    case 'tables':
      return (scope: AdminScope, ref: WorkspaceRef) => tables(checkRole(consumer, row, scope), ref)
    case 'purge':
      return (scope: AdminScope, ref: TenantRef) => purge(checkRole(consumer, row, scope), ref)
    case 'snapshot':
      return <T>(scope: AdminScope, ref: TenantRef, work: (inside: Snapshot) => Promise<T>) =>
        snapshot(checkRole(consumer, row, scope), ref, work)
    case 'inRole':
      return (scope: WorkspaceScope) => inRole(checkRole(consumer, row, scope), row.to[0])
    case 'asSubject':
      return (scope: WorkspaceScope) => asSubject(checkRole(consumer, row, scope), row.to[0])
    case 'inWorkspace':
      return (scope: AdminScope, ref: WorkspaceRef) =>
        inWorkspace(checkRole(consumer, row, scope), ref, row.to[0])
    case 'withLookups':
      return (scope: WorkspaceScope, lookups: Lookups) =>
        withLookups(checkRole(consumer, row, scope), lookups)
  }
}

/** @throws TypeError unless the row names the role of the scope */
function checkRole<S extends Scope>(consumer: Consumer, { from }: Raise | RoleAccess, scope: S): S {
  if (from.includes(scope.actor.role)) return scope
  throw new TypeError(`${consumer} must not raise the rights of the role ${scope.actor.role}`)
}

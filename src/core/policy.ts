/**
 * Roles, the two privilege domains, OAuth scopes, and the role in which a principal runs an operation. Operations declare
 * them (operation.ts). access/permission.ts calls these functions for each request, and throws the 403 for a role, domain
 * or scope that does not fit. docs/internals/requests.md lists all codes with status 403.
 */

import { Problem } from './problem.ts'
import type { TenantId, WorkspaceId } from './tenant.ts'

export type Domain = 'structural_admin' | 'data_access'
type StructuralRole = 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer'
/** The kinds of API keys that are sent with requests, which are also the roles of their holders. */
export type KeyKind = 'service' | 'anon'
/** `storage`: a key that signs requests of the S3 API. */
export type ApiKeyKind = KeyKind | 'storage'
/** `user`: an end user of one workspace. */
export type DataRole = KeyKind | 'user'
export type Role = StructuralRole | DataRole

/** The name in the roles of a token that stands for the right to see payloads. It is no role: it comes with one. */
export const PAYLOAD_READER = 'payload_reader'

/**
 * Role groups, each wider than the one before. An operation names one of them, and so decides which is the least role that may run
 * it: `docs/reference/roles.md` prints the table.
 */
export const OPERATORS = ['operator'] as const satisfies readonly Role[]
export const TENANT_ADMINS = ['operator', 'tenant_admin'] as const satisfies readonly Role[]
export const ADMINS = ['operator', 'tenant_admin', 'workspace_admin'] as const satisfies readonly Role[]
/** Those who declare and deploy: no people, keys, quotas, removal of data, or settings that open something. */
export const DEVELOPERS = [...ADMINS, 'developer'] as const satisfies readonly Role[]
/** Those who see definitions and states; a viewer changes nothing. */
export const VIEWERS = [...DEVELOPERS, 'viewer'] as const satisfies readonly Role[]
export const WRITERS = ['service'] as const satisfies readonly Role[]
/** For operations whose every effect is checked against a rule of the workspace. */
export const DATA_ROLES = ['service', 'user', 'anon'] as const satisfies readonly Role[]
/** For operations that users may run if a rule of the workspace allows it, and anon keys never. */
export const WRITERS_AND_USERS = ['service', 'user'] as const satisfies readonly Role[]
/** Roles of both domains, for operations on the caller alone. */
export const EVERYBODY = [...VIEWERS, ...DATA_ROLES] as const

export function domainOf(role: Role): Domain {
  return (DATA_ROLES as readonly Role[]).includes(role) ? 'data_access' : 'structural_admin'
}

/**
 * The workspace that bounds the reach of a structural role; undefined: its whole tenant, or all of them. Developers and viewers are of
 * the workspace that their credential names, or of its tenant if it names none.
 */
export const boundingWorkspace = <W>(role: Role, workspaceId: W | undefined): W | undefined =>
  role === 'operator' || role === 'tenant_admin' ? undefined : workspaceId

/** True for the roles of the public, which reach only what rules and settings of a workspace open to them. */
export const isPublicRole = (role: Role): role is 'anon' | 'user' => role === 'anon' || role === 'user'

/** True if a role ranks strictly above another: operator, tenant admin, workspace admin, then all others. */
export function outranks(role: Role, other: Role): boolean {
  const rank = (one: Role) => (ADMINS as readonly Role[]).indexOf(one)
  return rank(role) >= 0 && (rank(other) < 0 || rank(role) < rank(other))
}

/** An end user, as the token describes them. Rules compare documents with these values. */
export interface EndUser {
  readonly id: string
  readonly email: string
  readonly emailVerified: boolean
  /** Set by the workspace's admins. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** A value of a user that rules may name: `user.id`, `user.email`, `user.claims.<name>`. */
export type UserVariable = readonly ['id'] | readonly ['email'] | readonly ['claims', string]

const USER_VARIABLE = /^user\.(?:(id|email)|claims\.([A-Za-z0-9_-]{1,64}))$/

/** Reads `user.id`, `user.email` or `user.claims.<name>`; undefined for another text. */
export function readUserVariable(text: string): UserVariable | undefined {
  const [, own, claim] = USER_VARIABLE.exec(text) ?? []
  if (claim !== undefined) return ['claims', claim]
  return own === 'id' || own === 'email' ? [own] : undefined
}

/** The value of a variable; undefined if the user has none. An address that was not verified is none. */
export function userValue(user: EndUser, [name, claim]: UserVariable): unknown {
  if (name === 'id') return user.id
  if (name === 'email') return user.emailVerified ? user.email : undefined
  return Object.hasOwn(user.claims, claim) ? (user.claims[claim] ?? undefined) : undefined
}

/** The end user behind an actor in the role `user`. */
export function requireUser({ user }: Pick<Actor, 'user'>): EndUser {
  if (user === undefined) throw new TypeError('the role user needs a user')
  return user
}

export const STORAGE_ACTIONS = ['read', 'write', 'list', 'admin'] as const
export type StorageAction = (typeof STORAGE_ACTIONS)[number]

/** The actions and prefixes of a storage key in the bucket of its workspace. */
export interface StorageGrant {
  /** `admin`: all that the others allow. */
  readonly actions: readonly StorageAction[]
  /** How the keys begin that it reaches; null: the whole bucket. */
  readonly prefixes: readonly string[] | null
}

/** The scopes that the actions of a storage key are within; `object-rules.ts` of objects decides what exactly they allow. */
export function storageScopes({ actions }: StorageGrant): ReadonlySet<string> {
  const isAny = (...some: StorageAction[]) => actions.some((action) => some.includes(action))
  return new Set([
    ...(isAny('read', 'list', 'admin') ? ['objects:read'] : []),
    ...(isAny('write', 'admin') ? ['objects:write'] : []),
  ])
}

/** The verified identity behind a credential. Only `src/access/authentication` creates one. */
export interface Principal {
  /** The kind of credential. */
  readonly kind: 'api_key' | 'token' | 'gateway'
  /** A description of the credential for error texts: `a service API key ending …9f2c`. */
  readonly seen: string
  /** Subject for audit and logs: key id, client id or user id. */
  readonly subject: string
  /** The OAuth client that a token was issued to. */
  readonly clientId?: string
  readonly tenantId?: TenantId
  readonly workspaceId?: WorkspaceId
  /** Of a key that was made by rotation: the keys before it. */
  readonly replaces?: readonly string[]
  readonly roles: readonly Role[]
  /** True if it may see payloads of executions and runs that others have started; of keys, a scope says so. */
  readonly seesPayloads?: true
  /** Groups of its tenant that an external issuer claims for it. */
  readonly groups?: readonly string[]
  /** Set for the role `user`, which is then the only role. */
  readonly user?: EndUser
  /** Scopes that restrict the roles; absent if the credential is not restricted. */
  readonly scopes?: ReadonlySet<string>
  /** Origins of the pages that may use the credential; absent if it is bound to no workspace. */
  readonly origins?: readonly string[]
  /** Set for tokens. */
  readonly claims?: TokenClaims
  /** Set for tokens. `hasSecondFactor`: the subject is a person who has one here. */
  readonly proof?: SignInProof & { readonly hasSecondFactor: boolean }
  /** Set for signed links, which grant one request for one object and no other right of the credential that made them. */
  readonly link?: LinkTerms
  /** The bucket of its workspace, if that has one. */
  readonly bucket?: string
  /** Set for storage keys. */
  readonly storage?: StorageGrant
  /** Requests per minute, if the key has its own limit. */
  readonly rateLimit?: number
  /** Set for API keys. */
  readonly key?: {
    readonly id: string
    readonly kind: ApiKeyKind
    readonly last4: string
    /** RFC 3339; null if it does not expire. */
    readonly expires_at: string | null
  }
}

/** When and how the holder of a token has proved to be its subject. */
export interface SignInProof {
  /** False for a machine. */
  readonly isPerson: boolean
  /**
   * Milliseconds since 1970: the sign-in of a person (`auth_time`); for a machine the issue of the token, for which it has sent its
   * secret. Undefined: the token does not say.
   */
  readonly atMs?: number | undefined
  /** True after a second factor, or a passkey, which is two. */
  readonly isMultiFactor: boolean
}

/** The verified claims of a token; a link that it signs has them all. */
export interface TokenClaims {
  /** Milliseconds since 1970. */
  readonly expiresMs: number
  /** The generation of its user, if the platform issued it; it ends when the user is disabled or signs out everywhere. */
  readonly credential?: string | undefined
  /** Describes the subject, if it is an end user. */
  readonly user?: Omit<EndUser, 'id'>
  readonly proof?: SignInProof
  /** The session of a person that it comes from. */
  readonly sessionId?: string | undefined
  /** Set for data tokens. */
  readonly dataToken?: DataTokenTerms | undefined
}

/** What a data token is: the access of an administrator to the data of one workspace, which ends with the token that it was made with. */
export interface DataTokenTerms {
  /** `viewer`: it changes nothing. */
  readonly role: 'service' | 'viewer'
  /** The role of the administrator. */
  readonly holderRole: Role
}

/** The terms that a signed link fixes of its one request. */
export interface LinkTerms {
  /** Of an upload: the media type that it must have. Of a download: the one that the reply has. */
  readonly contentType?: string
  /** Of an upload: the greatest size, in bytes. */
  readonly maxBytes?: number
  /** The header `Content-Disposition`: of a download, in the reply; of an upload, kept with the object. */
  readonly disposition?: string
}

/**
 * The subjects behind what an actor causes, so that none of them approves what follows from it. Whoever has an anon key is
 * unknown: it is in the pages of applications.
 */
export function causesOf({
  subject,
  role,
  onBehalfOf,
  onBehalfOfUser,
  user = onBehalfOfUser,
  causes = [],
}: Actor): string[] {
  if (role === 'anon') return [...causes]
  const address = user?.emailVerified ? user.email : undefined
  return [...new Set([subject, onBehalfOf, user?.id, address, ...causes])].filter((one) => one !== undefined)
}

/**
 * Subjects with an entry that says since when they have acted, for those who ask later who could act as them then
 * (tenon.people_behind). An entry that is there already is earlier.
 * @param ms since the epoch
 */
export const withSince = (causes: readonly string[], ms: number): string[] =>
  causes.some((one) => /^since:\d{1,14}$/.test(one)) ? [...causes] : [...causes, `since:${ms}`]

/** The names of groups of people. */
export const GROUP_PATTERN = '^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$'

/** Values of documents that rules compare fields with. */
export interface LookupResult {
  readonly values: readonly unknown[]
  /** There are more values, so whether one that is missing here was found is unknown. */
  readonly isTruncated: boolean
}

/** The subject that acts within a scope. */
export interface Actor {
  readonly subject: string
  /** As of its principal. */
  readonly clientId?: string
  readonly role: Role
  /** The role of the credential, if the scope has another one. */
  readonly credentialRole?: Role
  /** As of its principal. */
  readonly groups?: readonly string[]
  /** Of the request that it makes; absent in code of functions, and in work that outlives its request. */
  readonly credential?: Pick<Principal, 'kind' | 'roles' | 'claims' | 'link' | 'seesPayloads' | 'replaces'>
  /** Set for the role `user`. */
  readonly user?: EndUser
  /** As of its principal. */
  readonly scopes?: ReadonlySet<string>
  /** As of its principal. */
  readonly storage?: StorageGrant
  /** For rules: what was looked up for this user, by `<collection>/<name>`. */
  readonly lookups?: Readonly<Record<string, LookupResult>>
  /** For an execution: its chain depth. */
  readonly chainDepth?: number
  /** For an execution that calls a tool, and for code of a function: its starter, on whose behalf it acts. */
  readonly onBehalfOf?: string
  /** For code of a function that declares scopes: the user on whose behalf it acts, without the user's rights. */
  readonly onBehalfOfUser?: EndUser
  /** For code of a function: the other subjects behind its run, such as the publisher of the event that started it. */
  readonly causes?: readonly string[]
}

/**
 * The kind of callers that an actor in a public role is one of, as the subject of a refusal: others than keys have the role `anon`,
 * too, since it is that of each token with a workspace and no other role on data.
 */
export function callersOf({ role, credential, onBehalfOf }: Actor): string {
  const holders = role === 'user' ? 'Users' : 'Anon keys'
  if (onBehalfOf !== undefined) return `Functions with the rights of ${holders.toLowerCase()}`
  if (role === 'user' || credential === undefined || credential.kind === 'api_key') return holders
  if (credential.kind === 'gateway') return 'Callers of a gateway with the role anon'
  return 'Tokens without a role on data, which have the rights of anon keys,'
}

/** An actor with one of these roles. */
export type ActorIn<R extends Role> = Actor & { readonly role: R }

/** The role in which a principal may run an operation with these roles; undefined if it may not. */
export function roleFor(principal: Principal, allowed: readonly Role[]): Role | undefined {
  return allowed.find((role) => principal.roles.includes(role))
}

/** True if the principal has a role of the domain. */
export function inDomain(principal: Principal, domain: Domain | 'any'): boolean {
  return domain === 'any' || principal.roles.some((role) => domainOf(role) === domain)
}

const FORM = /^[a-z][a-z0-9_]*:(read|write|run|approve)$/

/** The scope of an operation, such as `collections:read` for `collection.list`. Default area: the plural of the noun. */
export function scopeOf(operation: string, area: string | undefined, reads: boolean): string {
  const noun = operation.split('.')[0] ?? ''
  const plural = noun.endsWith('s') ? noun : `${noun}s`
  return `${area ?? plural}:${reads ? 'read' : 'write'}`
}

export const isReadScope = (scope: string): boolean => scope.endsWith(':read')

/**
 * The platform's scopes among the scope names of a credential; undefined if none has that form (`openid`). A misspelt scope
 * still restricts the credential and grants nothing.
 */
export function restrictingScopes(names: readonly string[]): ReadonlySet<string> | undefined {
  const ours = names.filter((name) => FORM.test(name))
  return ours.length === 0 ? undefined : new Set(ours)
}

/**
 * @param scopes the scopes of the caller; undefined if it is not restricted
 * @param needed undefined if no restricted caller may run the operation
 * @throws Problem `insufficient_scope` with the challenge of RFC 6750 §3.1
 */
export function requireScope(scopes: ReadonlySet<string> | undefined, needed: string | undefined): void {
  if (scopes === undefined || (needed !== undefined && scopes.has(needed))) return
  const challenge = 'Bearer realm="tenon", error="insufficient_scope"'
  if (needed === undefined) {
    const detail = 'This needs a credential without scope restrictions.'
    throw new Problem('insufficient_scope', { detail, headers: { 'www-authenticate': challenge } })
  }
  throw new Problem('insufficient_scope', {
    detail: `This needs the scope ${needed}. The credential has ${[...scopes].join(', ')}.`,
    headers: { 'www-authenticate': `${challenge}, scope="${needed}"` },
    members: { scope: needed },
  })
}

/** Generated from docs/reference/openapi.json by `npm run reference`. */

import type { Frame, StreamOptions } from '../streams.ts'
import type { CallOptions, RequestBody } from '../transport.ts'

export type AccessExplanation = {
  /** True if `decision` is `allowed`. */
  readonly allowed: boolean
  /** Decision of the rule. `depends`: an update whose rule compares with `$old` can be decided only with its result; send it as `document`. */
  readonly decision: 'allowed' | 'denied' | 'depends'
  /** One sentence that names the rule that decides and, for `depends`, the input to send. */
  readonly reason: string
  /** Rule or setting that decides: `access.user.update`, the setting `anon.collections`, or `default`: access is denied unless declared. */
  readonly decided_by: string
  readonly rule: boolean | Readonly<Record<string, unknown>>
  /** Tests of a filter, in the order of the rule. */
  readonly tests: readonly {
    /** Test as written in the rule. */
    readonly test: Readonly<Record<string, unknown>>
    /** True if the test is below a `$not`. */
    readonly negated: boolean
    /** True if the test holds, with any negation applied. */
    readonly holds: boolean
    /** Reason why the test cannot be decided; `holds` is then `false`. */
    readonly unknown?: string
  }[]
}

export type Account = {
  readonly id: string
  /** Tenant of the account. `null`: the account of an operator, which belongs to no tenant. */
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  readonly role: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service'
  readonly email: string
  readonly name: string
  /** Groups that approvals may name as `group:<name>`. */
  readonly groups: readonly string[]
  /** True if the account has a second factor, an authenticator app or a passkey, and signs in with it. */
  readonly second_factor: boolean
  /** Number of passkeys. */
  readonly passkeys: number
  /** True if the account sees payloads of executions and runs that others have started; each look is in the audit log. A new link to set a password ends it. */
  readonly sees_payloads: boolean
  /** Status of the account. `reset`: the password was invalidated, and the link to set a new one has not been used yet. */
  readonly status: 'invited' | 'active' | 'reset' | 'disabled'
  readonly invited_until: string | null
  readonly reset_at: string | null
  /** Subjects that have confirmed, since `controlled_at`, that the account belongs to its person. It then decides approvals that were requested before, and those of executions that subjects of `controlled_by` started. */
  readonly confirmed_by: readonly string[]
  /** Time when the password was set with a link mailed to `email`. `null`: it was not, such as when the link was shown to an admin. Only a verified address decides approvals that name it. */
  readonly email_verified_at: string | null
  /** Subjects that created the account, showed or mailed a link to it, or set its groups. With `fourEyes`, the account does not decide for executions that they started, unless another subject confirms it. */
  readonly controlled_by: readonly string[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly controlled_at: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  readonly last_login_at: string | null
}

export type AccountWithInvitation = {
  readonly id: string
  /** Tenant of the account. `null`: the account of an operator, which belongs to no tenant. */
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  readonly role: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service'
  readonly email: string
  readonly name: string
  /** Groups that approvals may name as `group:<name>`. */
  readonly groups: readonly string[]
  /** True if the account has a second factor, an authenticator app or a passkey, and signs in with it. */
  readonly second_factor: boolean
  /** Number of passkeys. */
  readonly passkeys: number
  /** True if the account sees payloads of executions and runs that others have started; each look is in the audit log. A new link to set a password ends it. */
  readonly sees_payloads: boolean
  /** Status of the account. `reset`: the password was invalidated, and the link to set a new one has not been used yet. */
  readonly status: 'invited' | 'active' | 'reset' | 'disabled'
  readonly invited_until: string | null
  readonly reset_at: string | null
  /** Subjects that have confirmed, since `controlled_at`, that the account belongs to its person. It then decides approvals that were requested before, and those of executions that subjects of `controlled_by` started. */
  readonly confirmed_by: readonly string[]
  /** Time when the password was set with a link mailed to `email`. `null`: it was not, such as when the link was shown to an admin. Only a verified address decides approvals that name it. */
  readonly email_verified_at: string | null
  /** Subjects that created the account, showed or mailed a link to it, or set its groups. With `fourEyes`, the account does not decide for executions that they started, unless another subject confirms it. */
  readonly controlled_by: readonly string[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly controlled_at: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  readonly last_login_at: string | null
  /** Link with which the person sets a password, shown only once. `null`: it was mailed. */
  readonly invitation_url: string | null
}

export type AccountWithReset = {
  readonly id: string
  /** Tenant of the account. `null`: the account of an operator, which belongs to no tenant. */
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  readonly role: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service'
  readonly email: string
  readonly name: string
  /** Groups that approvals may name as `group:<name>`. */
  readonly groups: readonly string[]
  /** True if the account has a second factor, an authenticator app or a passkey, and signs in with it. */
  readonly second_factor: boolean
  /** Number of passkeys. */
  readonly passkeys: number
  /** True if the account sees payloads of executions and runs that others have started; each look is in the audit log. A new link to set a password ends it. */
  readonly sees_payloads: boolean
  /** Status of the account. `reset`: the password was invalidated, and the link to set a new one has not been used yet. */
  readonly status: 'invited' | 'active' | 'reset' | 'disabled'
  readonly invited_until: string | null
  readonly reset_at: string | null
  /** Subjects that have confirmed, since `controlled_at`, that the account belongs to its person. It then decides approvals that were requested before, and those of executions that subjects of `controlled_by` started. */
  readonly confirmed_by: readonly string[]
  /** Time when the password was set with a link mailed to `email`. `null`: it was not, such as when the link was shown to an admin. Only a verified address decides approvals that name it. */
  readonly email_verified_at: string | null
  /** Subjects that created the account, showed or mailed a link to it, or set its groups. With `fourEyes`, the account does not decide for executions that they started, unless another subject confirms it. */
  readonly controlled_by: readonly string[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly controlled_at: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  readonly last_login_at: string | null
  /** Link with which the person sets another password, shown only once. `null`: it was mailed. */
  readonly reset_url: string | null
}

/** Groups and measures by their names. */
export type AggregateGroup = Readonly<Record<string, unknown>>

export type ApiKey = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly kind: 'anon' | 'service' | 'storage'
  readonly name: string
  readonly prefix: string
  readonly last4: string
  /** Scopes that restrict the key; empty: all rights of its kind. */
  readonly scopes: readonly string[]
  /** Actions of a storage key. `null`: the key is of another kind. */
  readonly actions: readonly ('read' | 'write' | 'list' | 'admin')[] | null
  /** Prefixes of the objects that a storage key reaches. `null`: the whole bucket, or a key of another kind. */
  readonly prefixes: readonly string[] | null
  /** Maximum number of requests per minute. `null`: the general limit of keys of its kind. */
  readonly rate_limit: number | null
  /** Status of the key. `expiring`: replaced by another key, and valid until `expires_at`. */
  readonly status: 'active' | 'expiring' | 'disabled' | 'expired' | 'revoked'
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  /** Id of the key that this one replaces. `null`: none. */
  readonly rotated_from: string | null
}

export type ApiKeyWithSecret = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly kind: 'anon' | 'service' | 'storage'
  readonly name: string
  readonly prefix: string
  readonly last4: string
  /** Scopes that restrict the key; empty: all rights of its kind. */
  readonly scopes: readonly string[]
  /** Actions of a storage key. `null`: the key is of another kind. */
  readonly actions: readonly ('read' | 'write' | 'list' | 'admin')[] | null
  /** Prefixes of the objects that a storage key reaches. `null`: the whole bucket, or a key of another kind. */
  readonly prefixes: readonly string[] | null
  /** Maximum number of requests per minute. `null`: the general limit of keys of its kind. */
  readonly rate_limit: number | null
  /** Status of the key. `expiring`: replaced by another key, and valid until `expires_at`. */
  readonly status: 'active' | 'expiring' | 'disabled' | 'expired' | 'revoked'
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  /** Id of the key that this one replaces. `null`: none. */
  readonly rotated_from: string | null
  /** API key itself, shown only once; of a storage key, its secret access key, whose access key id is `id`. */
  readonly key: string
}

export type AppliedSchema = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly collection: string
  readonly schema_id: string
  readonly revision: number
  /** Operation that builds the indexes of the collection. */
  readonly operation_id?: string
}

export type AppliedSchemas = {
  readonly applied: readonly AppliedSchema[]
}

export type Approval = {
  readonly id: string
  readonly execution_id: string
  /** Name of the flow. */
  readonly flow: string
  /** Name of the task. */
  readonly step: string
  readonly title?: string | null
  /** JSON Schema of `form` in a decision. `null`: no form. */
  readonly form: unknown
  /** Data to decide on, with secrets masked. `null`: they are larger than 64 KiB, or were changed by hand. */
  readonly data?: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
  /** Subjects, e-mail addresses, `role:…` and `group:…` that may decide. */
  readonly approvers: readonly string[]
  /** Subjects that may not decide, because they started the execution or changed its data (`fourEyes`). */
  readonly excluded: readonly string[]
  /** Number of approvals that are required. */
  readonly quorum: number
  readonly status: 'open' | 'approved' | 'rejected' | 'expired' | 'cancelled'
  /** True if the approval is requested again because the data were changed by hand after it had been given. */
  readonly reopened: boolean
  /** Decisions, each `{by, as?, created_by?, approved, at, form?, comment?}`; `created_by` is the subject that created the deciding account, key or client. */
  readonly decisions: readonly unknown[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly asked_at: string
  readonly deadline_at: string | null
  readonly ended_at: string | null
}

export type AuditEntry = {
  /** Position in the chain of the tenant, without gaps. */
  readonly seq: number
  /** Id of the tenant. `-`: no tenant. */
  readonly tenant_id: string
  readonly workspace_id: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly at: string
  /** Id of the request, also of one that started the run or execution which is the actor. */
  readonly request_id: string | null
  /** Trace of the request (W3C Trace Context). */
  readonly trace_id: string | null
  readonly actor: {
    /** Kind of the actor: `api_key`, `token`, `gateway`, `mcp_client`, `webhook`, `run`, `person` or `client` (in events of the issuer), `anonymous` (in requests without authentication) or `platform`. */
    readonly kind: string
    readonly role: string | null
    readonly subject: string | null
  }
  /** IP address of the client, for refusals, failures and events at the issuer. */
  readonly address: string | null
  readonly operation: string
  readonly target: string
  readonly outcome: 'done' | 'denied' | 'failed'
  readonly status: number | null
  readonly code: string | null
  /** Number of similar events that the entry stands for. */
  readonly count: number
  /** Further values that identify the event; never secrets. */
  readonly detail?: Readonly<Record<string, string | null>>
  readonly before: string | null
  readonly after: string | null
  /** SHA-256 digest in hexadecimal. */
  readonly prev_hash: string
  /** SHA-256 digest in hexadecimal. */
  readonly hash: string
}

export type AuthSettings = {
  /** Ways in which users join the workspace. `off`: no new users; `invite`: by invitation of an admin; `open`: also by signing up. Default: `off`. */
  readonly sign_up: 'off' | 'invite' | 'open'
  /** Branding of the hosted pages; a new value replaces all of its members. Default: the name of the workspace. */
  readonly branding: {
    readonly name?: string
    /** URL of the logo: `https` without a query, or `data:image/png|jpeg|webp;base64,…` of at most 64 KiB. SVG is not allowed. */
    readonly logo_url?: string
    /** Color of buttons and links; white text on it needs a contrast of at least 4.5:1. */
    readonly color?: string
  }
  /** Identity providers with which users may sign in. */
  readonly providers: readonly IdentityProvider[]
}

export type BatchOperation = {
  /** Change to make: `create {data, id?}`, `update {id, data?, …}` with operators such as `set`, `inc`, `push`, `patch {id, data}`, `replace {id, data}`, `upsert {on, data}`, `increment {id, field, by?}`, `delete {id}`. Every change of a document by its `id` may have `if_version`. `{"$ref": 0}` stands for the id of the document of the first operation. */
  readonly op: 'create' | 'update' | 'patch' | 'replace' | 'upsert' | 'increment' | 'delete'
  /** Label of your own for the change, returned with its result. */
  readonly ref?: string
  readonly id?: string | {
    /** Index of an operation before this one, counted from 0: the id of its document. */
    readonly $ref: number
  }
  /** Fields of the document. */
  readonly data?: Readonly<Record<string, unknown>>
  /** Values to set, by path, such as `{"shop.city": "Rome"}`. Objects on the way are created. */
  readonly set?: Readonly<Record<string, unknown>>
  /** Paths to remove, such as `["shop.aisle"]`. */
  readonly unset?: readonly string[]
  /** Numbers to add, by path, such as `{"seen": 1}`; texts such as `"0.10"` for fields of the formats `decimal` and `int64`. */
  readonly inc?: Readonly<Record<string, number | string>>
  /** Elements to append to arrays, by path: one value, or several as `{"each": [1, 2]}`. */
  readonly push?: Readonly<Record<string, unknown>>
  /** Elements to remove from arrays, by path: one value, or several as `{"each": [1, 2]}`. */
  readonly pull?: Readonly<Record<string, unknown>>
  /** Numbers or texts, by path, that replace greater ones. */
  readonly min?: Readonly<Record<string, number | string>>
  /** Numbers or texts, by path, that replace smaller ones. */
  readonly max?: Readonly<Record<string, number | string>>
  /** Paths that get the time of the change, as a text of RFC 3339. */
  readonly now?: readonly string[]
  /** Version that the document must have. */
  readonly if_version?: number
  /** Fields that are declared unique, by which `upsert` finds the document. */
  readonly on?: readonly string[]
  /** Path of the number that `increment` adds to. */
  readonly field?: string
  /** Number to add, or its text for a field of the format `decimal` or `int64`. Default: 1. */
  readonly by?: number | string
}

export type BatchOperationAnywhere = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly collection: string
  /** Change to make: `create {data, id?}`, `update {id, data?, …}` with operators such as `set`, `inc`, `push`, `patch {id, data}`, `replace {id, data}`, `upsert {on, data}`, `increment {id, field, by?}`, `delete {id}`. Every change of a document by its `id` may have `if_version`. `{"$ref": 0}` stands for the id of the document of the first operation. */
  readonly op: 'create' | 'update' | 'patch' | 'replace' | 'upsert' | 'increment' | 'delete'
  /** Label of your own for the change, returned with its result. */
  readonly ref?: string
  readonly id?: string | {
    /** Index of an operation before this one, counted from 0: the id of its document. */
    readonly $ref: number
  }
  /** Fields of the document. */
  readonly data?: Readonly<Record<string, unknown>>
  /** Values to set, by path, such as `{"shop.city": "Rome"}`. Objects on the way are created. */
  readonly set?: Readonly<Record<string, unknown>>
  /** Paths to remove, such as `["shop.aisle"]`. */
  readonly unset?: readonly string[]
  /** Numbers to add, by path, such as `{"seen": 1}`; texts such as `"0.10"` for fields of the formats `decimal` and `int64`. */
  readonly inc?: Readonly<Record<string, number | string>>
  /** Elements to append to arrays, by path: one value, or several as `{"each": [1, 2]}`. */
  readonly push?: Readonly<Record<string, unknown>>
  /** Elements to remove from arrays, by path: one value, or several as `{"each": [1, 2]}`. */
  readonly pull?: Readonly<Record<string, unknown>>
  /** Numbers or texts, by path, that replace greater ones. */
  readonly min?: Readonly<Record<string, number | string>>
  /** Numbers or texts, by path, that replace smaller ones. */
  readonly max?: Readonly<Record<string, number | string>>
  /** Paths that get the time of the change, as a text of RFC 3339. */
  readonly now?: readonly string[]
  /** Version that the document must have. */
  readonly if_version?: number
  /** Fields that are declared unique, by which `upsert` finds the document. */
  readonly on?: readonly string[]
  /** Path of the number that `increment` adds to. */
  readonly field?: string
  /** Number to add, or its text for a field of the format `decimal` or `int64`. Default: 1. */
  readonly by?: number | string
}

export type BatchResult = {
  /** HTTP status that the change would have as a request of its own. */
  readonly status: number
  readonly ref?: string
  readonly id?: string
  readonly version?: number
  readonly error?: {
    readonly code: string
    readonly detail?: string
    /** The next step. */
    readonly hint?: string
    /** Documents that refer to the one to be deleted. */
    readonly referring?: readonly unknown[]
    readonly errors?: readonly unknown[]
  }
}

export type BatchResults = {
  /** True if all changes were made. */
  readonly committed: boolean
  readonly results: readonly BatchResult[]
}

export type BulkChange = {
  readonly id: string
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly collection: string
  readonly verb: 'update' | 'delete'
  /** Status of the bulk change. `completed`: each document that matched was changed, or is counted in `failed`. */
  readonly status: 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'
  /** Number of matching documents that were processed so far. */
  readonly matched: number
  /** Number of documents that were changed or deleted. An update that changes no value is not counted. */
  readonly changed: number
  /** Number of documents that could not be changed. */
  readonly failed: number
  /** Failures, of which the first 20 are listed. */
  readonly failures: readonly {
    readonly id: string
    readonly code: string
    readonly detail: string
  }[]
  /** Reason why the bulk change has failed as a whole. */
  readonly error: {
    readonly code: string
    readonly detail: string
  } | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly ended_at: string | null
}

export type BulkChangePreview = {
  readonly dry_run: true
  /** Number of documents that match now. */
  readonly matched: number
  /** Number of documents that references would delete or change besides those that match: of the first 10000 that match, up to as many. For service keys, if the collection has such references. */
  readonly cascades?: number
  /** Ids of the first documents that match. */
  readonly sample: readonly string[]
}

export type Caller = {
  /** Id of the API key, or the subject of the token. */
  readonly subject: string
  readonly kind: 'api_key' | 'token' | 'gateway'
  readonly roles: readonly ('operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service' | 'user' | 'anon')[]
  /** Privilege domains in which the caller may call routes. */
  readonly domains: readonly ('structural_admin' | 'data_access')[]
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  /** Bucket of the workspace. `null`: it has none, or the credential is of no workspace. */
  readonly bucket: string | null
  /** URL at which clients of S3 reach the bucket, with a storage key. `null`: there is no bucket. */
  readonly s3_endpoint: string | null
  readonly key: {
    readonly id: string
    readonly kind: 'anon' | 'service' | 'storage'
    readonly last4: string
    readonly expires_at: string | null
  } | null
  /** End user, for the role `user`. `null`: another role. */
  readonly user: {
    readonly id: string
    readonly email: string
    readonly email_verified: boolean
    readonly claims: Readonly<Record<string, unknown>>
  } | null
  /** True if the caller sees payloads of executions and runs that others have started. */
  readonly sees_payloads: boolean
  /** Scopes that restrict the roles; empty if unrestricted. */
  readonly scopes: readonly string[]
}

export type ChainVerification = {
  readonly ok: boolean
  /** Number of entries that this call checked. */
  readonly checked: number
  /** `after` of the next call. `null`: the end is reached, or an entry is invalid. */
  readonly next: number | null
  readonly first_bad: {
    readonly seq: number
    /** Reason why the entry is invalid. `missing`: it does not exist; `link`: it does not follow the one before; `content`: it was changed; `head`: the chain does not end at its recorded head; `anchor`: it differs from the anchor; `checkpoint`: the platform has not signed that retention removed the entries up to this one. */
    readonly reason: 'missing' | 'link' | 'content' | 'head' | 'anchor' | 'checkpoint'
  } | null
  readonly head: {
    readonly seq: number
    /** SHA-256 digest in hexadecimal. */
    readonly hash: string
  }
  /** Point at which retention has cut the chain: the first entry follows it. `null`: no entry was removed. */
  readonly checkpoint: {
    /** Number of the last entry that was removed. */
    readonly seq: number
    /** SHA-256 digest in hexadecimal. */
    readonly hash: string
    /** Compact JWS of the platform about chain, entry and time, with its public key. */
    readonly signature: string
  } | null
}

export type CloudEvent = {
  readonly specversion: '1.0'
  readonly id: string
  readonly source: string
  readonly type: string
  /** The same as `type`, under the name that it was published by. */
  readonly topic: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly time: string
  readonly datacontenttype: 'application/json'
  /** Chain depth: number of executions that started each other by events before this event; absent for 0. */
  readonly tenonchaindepth?: number
  /** Trace of the work that has published the event (CloudEvents, "Distributed Tracing"). */
  readonly traceparent?: string
  readonly data: unknown
}

export type Collection = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly name: string
  readonly store?: 'relational' | 'document'
  /** True if the collection is declared; otherwise it exists because it has documents. Absent for anon keys and users, who see names only. */
  readonly declared?: boolean
  /** Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch. */
  readonly mode?: 'off' | 'warn' | 'enforce'
  readonly schema_id?: string
  readonly indexes?: readonly CollectionIndex[]
}

/** Rights of anon keys and users: each is `true`, `false`, or, except for `aggregate`, a filter with `$user.id`, `$user.email`, `$user.claims.<name>`, `$lookups.<name>` and `$now`. A right that is not named is denied. Without any `access`, users have no rights, and anon keys read only if the setting `anon.collections` of the workspace is `read`. */
export type CollectionAccess = {
  readonly anon?: {
    readonly read?: boolean | Readonly<Record<string, unknown>>
    readonly create?: boolean | Readonly<Record<string, unknown>>
    readonly update?: boolean | Readonly<Record<string, unknown>>
    readonly delete?: boolean | Readonly<Record<string, unknown>>
    /** True if the documents that `read` admits may be counted and added up. */
    readonly aggregate?: boolean
  }
  readonly user?: {
    readonly read?: boolean | Readonly<Record<string, unknown>>
    readonly create?: boolean | Readonly<Record<string, unknown>>
    readonly update?: boolean | Readonly<Record<string, unknown>>
    readonly delete?: boolean | Readonly<Record<string, unknown>>
    /** True if the documents that `read` admits may be counted and added up. */
    readonly aggregate?: boolean
  }
  /** Lists of values that rules use as `$lookups.<name>`; each is read from a field of another collection. */
  readonly lookups?: Readonly<Record<string, {
    /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
    readonly collection: string
    /** Field whose values are listed. */
    readonly field: string
    /** Filter of the documents to read, such as `{"user": "$user.id"}`. */
    readonly filter: Readonly<Record<string, unknown>>
  }>>
}

export type CollectionIndex = {
  readonly name: string
  readonly fields: readonly string[]
  readonly unique: boolean
  /** Kind of the index: `trigram` serves `near`, `like` and `ilike`, `text` serves `_search`, `array` serves `cs` and `ov`, `geo` serves `_distance`. */
  readonly kind?: 'trigram' | 'text' | 'array' | 'geo'
  /** Weights of the fields of a search, in their order. */
  readonly weights?: readonly ('A' | 'B' | 'C' | 'D')[]
  /** Language of a search. */
  readonly language?: string
  /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
  readonly where?: Readonly<Record<string, unknown>>
  readonly state: 'building' | 'ready' | 'failed'
  /** Reason why the index could not be built. */
  readonly reason?: string
}

export type CollectionReference = {
  /** Declared field of type string with the format `uuid`. */
  readonly field: string
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly collection: string
  /** Name of the other document in `expand`. */
  readonly as: string
  /** Name, in `expand` of the other collection, of the documents that refer to one of it. */
  readonly inverse?: string
  /** Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`. `none`: they keep an id that no document has; the only one if either collection is in MongoDB. */
  readonly on_delete: 'restrict' | 'cascade' | 'set_null' | 'none'
}

export type CollectionSchema = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly collection: string
  readonly store: 'relational' | 'document'
  /** JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch. */
  readonly mode: 'off' | 'warn' | 'enforce'
  readonly access: CollectionAccess
  readonly indexes: readonly CollectionIndex[]
  readonly references: readonly CollectionReference[]
  /** Conditions that each document must meet: `[{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}}]`. `null` and missing values break none. */
  readonly checks: readonly {
    /** Name of the check in problems. */
    readonly name: string
    /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
    readonly check: Readonly<Record<string, unknown>>
    /** Sentence in the problem of a document that breaks the check. */
    readonly message?: string
  }[]
  /** Ranges that do not overlap: `[{"fields": ["court_id"], "range": ["starts_at", "ends_at"]}]`. A document without one of these values, or that does not meet `where`, excludes none. */
  readonly exclude: readonly {
    /** Declared scalar fields. Only documents with equal values in all of them exclude each other. */
    readonly fields: readonly string[]
    /** Fields with the start of the range, and with its end, which does not belong to it. Both are declared with one type: `integer`, `number`, or a string with the format `date-time`, `date`, `decimal` or `int64`. */
    readonly range: readonly string[]
    /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
    readonly where?: Readonly<Record<string, unknown>>
  }[]
  readonly ttl: {
    /** Declared field of type string with the format `date-time`, or `_created_at`. */
    readonly field: string
    /** Time from the value of the field until the document expires, from 1s to 36500d. Default: none. Format: `90s`, `15m`, `1h`. */
    readonly after?: string
  } | null
  /** Number of expired documents that stay, since others refer to them; at most 1,000 are counted. */
  readonly expired_kept: number
  /** Revision of the declaration, incremented by one with every change. */
  readonly revision: number
  /** Warnings about a change: access that it leaves open, rules without a test, and rules that no index serves. */
  readonly warnings?: readonly {
    readonly pointer: string
    readonly detail: string
  }[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type ConfiguredFunction = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly name: string
  /** Number of the active version. */
  readonly version: number
  /** SHA-256 of the source. */
  readonly sha256: string
  readonly config: FunctionConfig
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** Parts of the configuration that have no effect yet; absent if there are none. */
  readonly warnings?: readonly {
    readonly pointer: string
    readonly detail: string
  }[]
}

export type Consent = {
  readonly id: string
  readonly client_id: string
  readonly client_name: string
  /** True if the client registered itself: its name is not verified. */
  readonly registered: boolean
  /** The REST API, or the MCP server that the client may use. */
  readonly resource: string
  readonly scopes: readonly string[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly last_used_at: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly expires_at: string
}

export type DataToken = {
  /** Data token, shown only once. Send it as `Authorization: Bearer`, to routes on data alone. */
  readonly token: string
  readonly tenant_id: string
  readonly workspace_id: string
  /** Role of the token. `viewer`: all of its scopes read, and it changes nothing. */
  readonly role: 'service' | 'viewer'
  readonly scopes: readonly string[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly expires_at: string
}

export type Deleted = {
  readonly id: string
  readonly deleted: true
}

export type DeletedClient = {
  readonly client_id: string
  readonly deleted: true
}

export type DeletedFlowSecret = {
  readonly name: string
  readonly deleted: true
  /** Names of the flows whose calls with the secret now fail, and of the functions whose runs now fail. */
  readonly used_by: readonly string[]
}

export type DeletedFunctionRun = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly deleted: true
}

export type DeletedHost = {
  readonly host: string
  readonly deleted: true
}

export type DeletedName = {
  readonly name: string
  readonly deleted: true
}

export type DeletedObject = {
  readonly bucket: string
  readonly key: string
  readonly deleted: true
}

export type DeployedFunction = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly name: string
  /** Number of the active version. */
  readonly version: number
  /** SHA-256 of the source. */
  readonly sha256: string
  readonly config: FunctionConfig
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** Export `tool` of the module, for tools over the function; absent if the module has none. */
  readonly tool?: {
    readonly description?: string
    readonly read_only?: boolean
  }
  /** JSON Schema 2020-12 that the module exports; absent if it exports none. */
  readonly input_schema?: Readonly<Record<string, unknown>>
  /** JSON Schema 2020-12 that the module exports; absent if it exports none. */
  readonly output_schema?: Readonly<Record<string, unknown>>
  /** Parts of the configuration that have no effect yet; absent if there are none. */
  readonly warnings?: readonly {
    readonly pointer: string
    readonly detail: string
  }[]
}

export type Diagnostic = {
  readonly code: string
  readonly message: string
  readonly line: number
  readonly column: number
  readonly pointer: string
  readonly hint?: string
  /** Path of the documentation page of the code. */
  readonly docs?: string
  readonly excerpt?: string
}

export type Document = {
  readonly id: string
  readonly _created_at: string
  readonly _updated_at: string
  readonly _version: number
  /** Id of the end user who created the document; absent if none did. */
  readonly _owner?: string
  /** Mismatches with the schema of the collection, in the response to a write in mode `warn`. */
  readonly _warnings?: readonly {
    readonly pointer: string
    readonly keyword: string
    readonly detail: string
  }[]
}

export type Drift = {
  /** Id of the tenant or the workspace. */
  readonly target: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly checked_at: string
  readonly differences: readonly {
    /** Kind of the resource, such as `bucket`. */
    readonly resource: string
    /** Name of the resource in the other system. */
    readonly name: string
    /** Kind of the difference. `left_over`: the platform has made the resource, and does not know it any more. `foreign`: the platform did not make it. */
    readonly kind: 'missing' | 'altered' | 'left_over' | 'foreign'
    readonly detail: string
    /** Repair of the difference. `automatic`: by the platform at its next look, within an hour. */
    readonly repair: 'automatic' | 'by_hand'
  }[]
  /** Number of further differences, which are not listed. */
  readonly omitted: number
  /** Resources that could not be compared, and why. With any, the list of differences is incomplete. */
  readonly unread: readonly {
    readonly resource: string
    readonly detail: string
  }[]
}

export type DroppedCollection = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly name: string
  readonly dropped: true
}

export type EffectiveSetting = {
  /** JSON Pointer of the setting, such as `/anon/collections`. */
  readonly pointer: string
  /** Value that is in force. Null: no limit, or nothing set. */
  readonly value: unknown
  /** Source of the value. `default`: nothing is set; `workspace`, `tenant`: their settings. */
  readonly source: 'default' | 'workspace' | 'tenant'
}

export type Ended = {
  readonly id: string
  readonly ended: true
}

export type Execution = {
  readonly id: string
  readonly workflow_id: string
  readonly flow_id: string
  /** Name of the flow, even if the flow was deleted. */
  readonly flow_name: string
  readonly version: number
  readonly status: 'pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed'
  /** Reason why the execution is suspended. `workspace`: its workspace is suspended. `paused`: it was paused. `held`: a step waits for a decision (`onFault: hold`). `null`: it is not suspended. */
  readonly suspended_because: 'workspace' | 'paused' | 'held' | null
  readonly pause_reason: string | null
  readonly input?: unknown
  readonly output?: unknown
  readonly error: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
  /** Outcome of the compensation if the execution faulted or was cancelled. `null`: there was no step to undo. */
  readonly compensation: {
    /** Steps that were undone, as `pointer#iteration`. */
    readonly undone: readonly string[]
    /** Steps that could not be undone, with the error of the last attempt. */
    readonly failures: readonly {
      readonly step: string
      readonly error: unknown
      /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
      readonly payloads?: 'hidden'
    }[]
  } | null
  readonly started_by: string
  readonly trigger: {
    readonly kind: 'manual' | 'schedule' | 'webhook' | 'event' | 'flow' | 'rerun'
    readonly id: string | null
    /** Delivery of the result to the sender of a webhook with `respond`. */
    readonly response?: 'sent' | 'timed_out' | 'sender_gone'
  }
  readonly correlation_key: string | null
  /** Period whose events were dropped before the execution received them: a `listen` may have missed some. `null`: none. */
  readonly event_gap: {
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly from: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly to: string
  } | null
  /** Id of the execution that this one repeats, or that the execution whose step has started it repeats. `null`: none. */
  readonly rerun_of: string | null
  /** Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own. */
  readonly request_id: string | null
  /** Id of its trace (W3C Trace Context): that of the `traceparent` of the request. */
  readonly trace_id: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly started_at: string
  readonly ended_at: string | null
  /** True if the execution was still open after the `expect.duration` of its version. */
  readonly overdue: boolean
  /** Place in the queue, while the execution waits for a concurrency slot to start or to continue. */
  readonly queue?: {
    /** Position in the queue; 1 starts next. */
    readonly position: number
    /** Concurrency key of the execution; empty if the flow has none. */
    readonly key: string
    readonly limit: number
    /** Number of executions that hold a slot of the key. */
    readonly running: number
  }
  readonly steps?: readonly {
    readonly seq: number
    readonly name: string
    readonly kind: string
    readonly pointer: string
    readonly iteration: number
    readonly summary: string
    readonly status: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
    /** Number of attempts of the step. */
    readonly attempt: number
    readonly error: unknown
    /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
    readonly payloads?: 'hidden'
    /** True if the result comes from the execution that this one repeats. */
    readonly reused: boolean
    readonly started_at: string
    readonly ended_at: string | null
  }[]
  /** Reference to all steps, if `steps` has only the first 1,000. */
  readonly steps_omitted?: {
    readonly total: number
    /** Path of the list of all steps. */
    readonly href: string
  }
  /** Approvals that the execution waits for. */
  readonly approvals?: readonly Approval[]
  readonly temporal_url?: string
}

export type ExecutionRerun = {
  readonly id?: string
  readonly workflow_id?: string
  readonly flow_id?: string
  /** Name of the flow, even if the flow was deleted. */
  readonly flow_name?: string
  readonly version?: number
  readonly status?: 'pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed'
  /** Reason why the execution is suspended. `workspace`: its workspace is suspended. `paused`: it was paused. `held`: a step waits for a decision (`onFault: hold`). `null`: it is not suspended. */
  readonly suspended_because?: 'workspace' | 'paused' | 'held' | null
  readonly pause_reason?: string | null
  readonly input?: unknown
  readonly output?: unknown
  readonly error?: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
  /** Outcome of the compensation if the execution faulted or was cancelled. `null`: there was no step to undo. */
  readonly compensation?: {
    /** Steps that were undone, as `pointer#iteration`. */
    readonly undone: readonly string[]
    /** Steps that could not be undone, with the error of the last attempt. */
    readonly failures: readonly {
      readonly step: string
      readonly error: unknown
      /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
      readonly payloads?: 'hidden'
    }[]
  } | null
  readonly started_by?: string
  readonly trigger?: {
    readonly kind: 'manual' | 'schedule' | 'webhook' | 'event' | 'flow' | 'rerun'
    readonly id: string | null
    /** Delivery of the result to the sender of a webhook with `respond`. */
    readonly response?: 'sent' | 'timed_out' | 'sender_gone'
  }
  readonly correlation_key?: string | null
  /** Period whose events were dropped before the execution received them: a `listen` may have missed some. `null`: none. */
  readonly event_gap?: {
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly from: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly to: string
  } | null
  /** Id of the execution that this one repeats, or that the execution whose step has started it repeats. `null`: none. */
  readonly rerun_of?: string | null
  /** Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own. */
  readonly request_id?: string | null
  /** Id of its trace (W3C Trace Context): that of the `traceparent` of the request. */
  readonly trace_id?: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly started_at?: string
  readonly ended_at?: string | null
  /** True if the execution was still open after the `expect.duration` of its version. */
  readonly overdue?: boolean
  /** Place in the queue, while the execution waits for a concurrency slot to start or to continue. */
  readonly queue?: {
    /** Position in the queue; 1 starts next. */
    readonly position: number
    /** Concurrency key of the execution; empty if the flow has none. */
    readonly key: string
    readonly limit: number
    /** Number of executions that hold a slot of the key. */
    readonly running: number
  }
  readonly steps?: readonly {
    readonly seq: number
    readonly name: string
    readonly kind: string
    readonly pointer: string
    readonly iteration: number
    readonly summary: string
    readonly status: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
    /** Number of attempts of the step. */
    readonly attempt: number
    readonly error: unknown
    /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
    readonly payloads?: 'hidden'
    /** True if the result comes from the execution that this one repeats. */
    readonly reused: boolean
    readonly started_at: string
    readonly ended_at: string | null
  }[]
  /** Reference to all steps, if `steps` has only the first 1,000. */
  readonly steps_omitted?: {
    readonly total: number
    /** Path of the list of all steps. */
    readonly href: string
  }
  /** Approvals that the execution waits for. */
  readonly approvals?: readonly Approval[]
  readonly temporal_url?: string
  readonly plan: RerunPlan
}

export type ExecutionResult = {
  readonly id: string
  readonly status: 'pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed'
  readonly output?: unknown
  readonly error: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
  readonly started_by: string
  /** Id of the execution that this one repeats, or that the execution whose step has started it repeats. `null`: none. */
  readonly rerun_of: string | null
  readonly ended_at: string | null
}

export type ExecutionStatusEvent = {
  readonly specversion: '1.0'
  readonly id: string
  readonly source: string
  readonly type: string
  /** The same as `type`, under the name that it was published by. */
  readonly topic: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly time: string
  readonly datacontenttype: 'application/json'
  /** Chain depth: number of executions that started each other by events before this event; absent for 0. */
  readonly tenonchaindepth?: number
  /** Trace of the work that has published the event (CloudEvents, "Distributed Tracing"). */
  readonly traceparent?: string
  readonly data: {
    readonly execution: string
    readonly flow: {
      readonly id: string
      readonly version: number
      readonly name: string
    }
    /** Status since the change. */
    readonly status: string
    /** Status before the change. `null`: the execution was started. */
    readonly previous_status: string | null
  }
}

export type ExecutionStep = {
  /** Number of the step within its execution, in the order in which steps started. */
  readonly id: string
  readonly name: string
  readonly kind: string
  /** JSON pointer of the task in the definition. */
  readonly task: string
  /** Number of earlier entries to the task. Commands name the step `task#iteration`. */
  readonly iteration: number
  /** Position of the step, the same in every execution that takes the same route. */
  readonly path: string | null
  readonly summary: string
  readonly status: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
  readonly attempts: number
  /** True if the result comes from the execution that this one repeats. */
  readonly reused: boolean
  readonly execution_id?: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly started_at: string
  readonly ended_at: string | null
  readonly error?: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
}

export type ExecutionStepWithData = {
  /** Number of the step within its execution, in the order in which steps started. */
  readonly id: string
  readonly name: string
  readonly kind: string
  /** JSON pointer of the task in the definition. */
  readonly task: string
  /** Number of earlier entries to the task. Commands name the step `task#iteration`. */
  readonly iteration: number
  /** Position of the step, the same in every execution that takes the same route. */
  readonly path: string | null
  readonly summary: string
  readonly status: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
  readonly attempts: number
  /** True if the result comes from the execution that this one repeats. */
  readonly reused: boolean
  readonly execution_id?: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly started_at: string
  readonly ended_at: string | null
  readonly error?: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
  /** Input of the task, after `input.from`. */
  readonly input?: unknown
  /** Arguments that the task passed to its environment, such as the request of a call. */
  readonly arguments?: unknown
  /** Output of the task, after `output.as`. */
  readonly output?: unknown
  /** Values that are shortened to about 4,096 characters: lists and objects lack their last members, strings end in `…`. */
  readonly truncated: readonly ('input' | 'arguments' | 'output')[]
}

/** Sign that events of the execution are missing: read the execution again. */
export type ExecutionStreamGap = {
  /** Number of the last event before the gap. */
  readonly after: number
}

/** First event of a stream of an execution. */
export type ExecutionStreamReady = {
  readonly execution: string
  /** Status of the execution at the start of the stream. */
  readonly status: string
  /** Number of the event that the stream follows. */
  readonly cursor: number
}

export type ExecutionSummary = {
  readonly id: string
  readonly workflow_id: string
  readonly flow_id: string
  /** Name of the flow, even if the flow was deleted. */
  readonly flow_name: string
  readonly version: number
  readonly status: 'pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed'
  /** Reason why the execution is suspended. `workspace`: its workspace is suspended. `paused`: it was paused. `held`: a step waits for a decision (`onFault: hold`). `null`: it is not suspended. */
  readonly suspended_because: 'workspace' | 'paused' | 'held' | null
  readonly pause_reason: string | null
  readonly error: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
  /** Outcome of the compensation if the execution faulted or was cancelled. `null`: there was no step to undo. */
  readonly compensation: {
    /** Steps that were undone, as `pointer#iteration`. */
    readonly undone: readonly string[]
    /** Steps that could not be undone, with the error of the last attempt. */
    readonly failures: readonly {
      readonly step: string
      readonly error: unknown
      /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
      readonly payloads?: 'hidden'
    }[]
  } | null
  readonly started_by: string
  readonly trigger: {
    readonly kind: 'manual' | 'schedule' | 'webhook' | 'event' | 'flow' | 'rerun'
    readonly id: string | null
    /** Delivery of the result to the sender of a webhook with `respond`. */
    readonly response?: 'sent' | 'timed_out' | 'sender_gone'
  }
  readonly correlation_key: string | null
  /** Period whose events were dropped before the execution received them: a `listen` may have missed some. `null`: none. */
  readonly event_gap: {
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly from: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly to: string
  } | null
  /** Id of the execution that this one repeats, or that the execution whose step has started it repeats. `null`: none. */
  readonly rerun_of: string | null
  /** Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own. */
  readonly request_id: string | null
  /** Id of its trace (W3C Trace Context): that of the `traceparent` of the request. */
  readonly trace_id: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly started_at: string
  readonly ended_at: string | null
  /** True if the execution was still open after the `expect.duration` of its version. */
  readonly overdue: boolean
  readonly temporal_url?: string
}

export type Flow = {
  readonly id: string
  readonly name: string
  readonly state: 'draft' | 'published'
  /** Number of the latest published version. 0: none. */
  readonly latest_version: number
  readonly source: string
  readonly valid: boolean
  readonly diagnostics: readonly Diagnostic[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type FlowAlias = {
  readonly flow_id: string
  readonly name: string
  readonly versions: readonly WeightedVersion[]
  readonly updated_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type FlowGraph = {
  readonly mermaid: string
  readonly nodes: readonly {
    /** JSON pointer of the task, or `start` or `end`, which are no tasks. */
    readonly id: string
    readonly kind: string
    readonly name: string
    /** Description on one line. */
    readonly label: string
    readonly pointer?: string
    readonly line?: number
    readonly column?: number
    /** JSON pointer of the task that contains this one. */
    readonly parent?: string
    /** Name of the list of the containing task, such as `do`, in which this one is. */
    readonly list?: string
  }[]
  readonly edges: readonly {
    readonly from: string
    readonly to: string
    readonly kind: 'next' | 'case' | 'default' | 'catch' | 'retry' | 'exit' | 'end' | 'branch' | 'loop' | 'compensate'
    /** Condition of the edge, such as that of a case. */
    readonly label?: string
  }[]
}

/** Secret without its value. */
export type FlowSecret = {
  readonly name: string
  readonly updated_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type FlowSimulation = {
  readonly status: 'completed' | 'faulted' | 'cancelled' | 'waiting' | 'suspended'
  readonly output?: unknown
  readonly error?: unknown
  /** Tasks that were compensated, and tasks whose compensation failed. */
  readonly compensation?: unknown
  /** Errors of the tasks under `onError` and `finally`. */
  readonly handlerErrors?: unknown
  /** Inputs that the execution waits for and the simulation does not have. */
  readonly wanted?: readonly {
    readonly step: string
    readonly what: string
    readonly hint: string
  }[]
  /** Mocks that match no task, or whose answers were not all used; at most 20. */
  readonly unused?: readonly {
    readonly mock: string
    readonly reason: string
    readonly hint?: string
  }[]
  readonly held?: Readonly<Record<string, unknown>>
  readonly trace: readonly {
    /** Virtual time of the entry. */
    readonly at: string
    readonly pointer: string
    readonly iteration: number
    readonly name: string
    readonly kind: string
    readonly phase: string
    /** Branch taken, such as the name of a case. */
    readonly took?: string
    readonly output?: unknown
    readonly error?: unknown
    /** Request of the task to its environment. */
    readonly asks?: unknown
    /** True if a value is omitted because the trace would be too large. */
    readonly cut?: boolean
  }[]
  readonly coverage: {
    readonly tasks: {
      readonly entered: number
      readonly total: number
      readonly missed: readonly string[]
    }
    readonly ways: {
      readonly taken: number
      readonly total: number
      readonly missed: readonly string[]
    }
  }
  /** Duration in virtual time, in milliseconds. */
  readonly duration_ms: number
  /** Approximate number of Temporal history events of the simulated execution. */
  readonly history_events: number
  readonly lifecycle?: readonly {
    readonly type: string
    readonly time: string
    readonly data: Readonly<Record<string, unknown>>
  }[]
}

export type FlowSummary = {
  readonly id: string
  readonly name: string
  readonly state: 'draft' | 'published'
  /** Number of the latest published version. 0: none. */
  readonly latest_version: number
  readonly valid: boolean
  readonly diagnostics: readonly Diagnostic[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** SHA-256 of the source of the draft, in hexadecimal. */
  readonly source_sha256: string
  /** True if the latest version has another source than the draft, or there is none. */
  readonly has_unpublished_changes: boolean
}

export type FlowValidation = {
  readonly valid: boolean
  readonly diagnostics: readonly Diagnostic[]
  /** Diagnostics that do not prevent publishing. */
  readonly warnings: readonly Diagnostic[]
  /** Facts about the flow from static analysis; present if the flow is valid. */
  readonly facts?: {
    /** Functions that the flow calls, and `http`; sorted. */
    readonly functions: readonly string[]
    /** Secrets that the flow reads; sorted. */
    readonly secrets: readonly string[]
    /** Kinds of the tasks; sorted. */
    readonly kinds: readonly string[]
    readonly events: {
      /** Approximate number of Temporal history events if nothing fails. */
      readonly fixed: number
      /** Further events per item of loops whose length is known only at run time. */
      readonly per_item: number
    }
    /** Maximum number of tasks that run concurrently. */
    readonly fan_out: number
  }
}

export type FlowVersion = {
  readonly flow_id: string
  readonly version: number
  /** SHA-256 of the compiled form. */
  readonly sha256: string
  readonly source: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
}

export type FlowVersionSummary = {
  readonly flow_id: string
  readonly version: number
  /** SHA-256 of the compiled form. */
  readonly sha256: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
}

export type Function = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly name: string
  /** Number of the active version. */
  readonly version: number
  /** SHA-256 of the source. */
  readonly sha256: string
  readonly config: FunctionConfig
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type FunctionAlias = {
  readonly tenant_id: string
  readonly workspace_id: string
  readonly function_id: string
  readonly name: string
  readonly versions: readonly WeightedVersion[]
  readonly updated_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type FunctionConfig = {
  /** Maximum duration of a run, at most 15m, and 60s for callers that wait. Default: `10s`. Format: `90s`, `15m`, `1h`. */
  readonly timeout: string
  /** Maximum memory of the process in megabytes. Default: 128. */
  readonly memory_mb: number
  /** Maximum number of concurrent runs. `null`: no limit of its own. Default: `null`. */
  readonly concurrency: number | null
  /** Environment of the code as `context.env`, for settings that are no secrets. A name has at most 64 letters, digits and `_`, and does not begin with a digit. */
  readonly env: Readonly<Record<string, string>>
  /** Names of secrets of the workspace, which the code receives as `context.secrets`. */
  readonly secrets: readonly string[]
  /** Servers that the code may send requests to: `host:port`, `*.example.com:443`, or `*` for all public ones. Default: none. */
  readonly egress: readonly string[]
  /** Scopes of a service key that the code acts with, such as `collections:write`. Default: none, so that the code acts with the rights of its caller. */
  readonly scopes: readonly string[]
  readonly schedule: {
    /** Cron expression of five fields: minute, hour, day, month, weekday. */
    readonly cron: string
    /** IANA name of the time zone. Default: `UTC`. */
    readonly timezone?: string
    /** Input of each run. Default: an empty object. */
    readonly input?: unknown
  } | null
  readonly triggers: readonly {
    /** Topics of events, or `orders.*` for all topics below `orders`; `collections.<name>.created`, `.updated` and `.deleted` are changes of documents in the workspace. */
    readonly topics: readonly string[]
  }[]
  /** True if a run may be repeated after a failure. Default: `false`. */
  readonly idempotent: boolean
  /** Maximum number of repetitions of a failed run; requires `idempotent`. Default: 0. */
  readonly retries: number
  /** True if anon keys may invoke the function. Default: `false`. */
  readonly anon: boolean
  /** True if users may invoke the function. Default: `false`. */
  readonly user: boolean
}

export type FunctionLogLine = {
  /** Number of the line, ascending, with gaps between attempts. */
  readonly seq: number
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly at: string
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly text: string
  /** Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own. */
  readonly request_id: string | null
  /** Id of its trace (W3C Trace Context): that of the `traceparent` of the request. */
  readonly trace_id: string | null
}

export type FunctionRun = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly function_id: string
  readonly version: number
  readonly status: 'queued' | 'running' | 'completed' | 'failed'
  readonly trigger: {
    readonly kind: 'api' | 'http' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event' | 'redrive'
    /** Id of the execution, run, server or trigger that started the run. */
    readonly id?: string
    /** Number of runs and executions that started one another, up to this run. */
    readonly chain_depth?: number
  }
  readonly started_by: string
  /** True if the caller did not wait for the result. */
  readonly async: boolean
  readonly attempts: number
  readonly duration_ms: number | null
  readonly memory_mb: number | null
  readonly cold: boolean | null
  readonly error: {
    readonly code: string
    readonly detail?: string
    /** Name of the error that the code threw. */
    readonly name?: string
    readonly file?: string
    readonly line?: number
    readonly column?: number
    /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
    readonly payloads?: 'hidden'
  } | null
  /** True if the run is asynchronous, has failed, and was not run again. */
  readonly dead_letter: boolean
  readonly redriven_as: string | null
  /** Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own. */
  readonly request_id: string | null
  /** Id of its trace (W3C Trace Context): that of the `traceparent` of the request. */
  readonly trace_id: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly temporal_url?: string
}

export type FunctionRunOperation = {
  readonly id: string
  readonly tenant_id: string
  readonly type: string
  readonly target: string
  readonly state: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled'
  readonly steps: readonly OperationStep[]
  readonly error: unknown
  /** Return value of the function. `null`: it has not returned yet. */
  readonly result?: unknown
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly finished_at: string | null
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
}

export type FunctionRunWithResult = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly function_id: string
  readonly version: number
  readonly status: 'queued' | 'running' | 'completed' | 'failed'
  readonly trigger: {
    readonly kind: 'api' | 'http' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event' | 'redrive'
    /** Id of the execution, run, server or trigger that started the run. */
    readonly id?: string
    /** Number of runs and executions that started one another, up to this run. */
    readonly chain_depth?: number
  }
  readonly started_by: string
  /** True if the caller did not wait for the result. */
  readonly async: boolean
  readonly attempts: number
  readonly duration_ms: number | null
  readonly memory_mb: number | null
  readonly cold: boolean | null
  readonly error: {
    readonly code: string
    readonly detail?: string
    /** Name of the error that the code threw. */
    readonly name?: string
    readonly file?: string
    readonly line?: number
    readonly column?: number
    /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
    readonly payloads?: 'hidden'
  } | null
  /** True if the run is asynchronous, has failed, and was not run again. */
  readonly dead_letter: boolean
  readonly redriven_as: string | null
  /** Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own. */
  readonly request_id: string | null
  /** Id of its trace (W3C Trace Context): that of the `traceparent` of the request. */
  readonly trace_id: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly temporal_url?: string
  /** Input of an asynchronous run. */
  readonly input?: unknown
  /** Return value of an asynchronous run. */
  readonly result?: unknown
  /** Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was. */
  readonly payloads?: 'hidden'
}

export type FunctionTrigger = {
  readonly id: string
  /** Number of runs that the trigger has started. */
  readonly started: number
  readonly last_run_id: string | null
  readonly last_run_at: string | null
  readonly kind: 'schedule'
  /** Next start times of the schedule. */
  readonly next: readonly string[]
  /** Number of starts skipped because they were too late. */
  readonly missed: number
} | {
  readonly id: string
  /** Number of runs that the trigger has started. */
  readonly started: number
  readonly last_run_id: string | null
  readonly last_run_at: string | null
  readonly kind: 'event'
  /** Topics of all triggers of the configuration. */
  readonly topics: readonly string[]
  /** Number of events of the topics. */
  readonly seen: number
  /** Number of events that started no run: during a suspension, at the end of a chain of events, or because they were refused. */
  readonly dropped: number
  /** Period whose events the trigger missed, because the stream no longer had them. */
  readonly gap?: {
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly from: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly to: string
  }
}

export type FunctionVersion = {
  readonly function_id: string
  readonly version: number
  /** SHA-256 of the source. */
  readonly sha256: string
  /** Size of the source in bytes. */
  readonly size: number
  /** True if this is the active version, which is invoked by its name alone. */
  readonly active: boolean
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
}

export type FunctionVersionWithSource = {
  readonly function_id: string
  readonly version: number
  /** SHA-256 of the source. */
  readonly sha256: string
  /** Size of the source in bytes. */
  readonly size: number
  /** True if this is the active version, which is invoked by its name alone. */
  readonly active: boolean
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Export `tool` of the module, for tools over the function; absent if the module has none. */
  readonly tool?: {
    readonly description?: string
    readonly read_only?: boolean
  }
  /** JSON Schema 2020-12 that the module exports; absent if it exports none. */
  readonly input_schema?: Readonly<Record<string, unknown>>
  /** JSON Schema 2020-12 that the module exports; absent if it exports none. */
  readonly output_schema?: Readonly<Record<string, unknown>>
  readonly source: string
}

export type FunctionWithSource = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly name: string
  /** Number of the active version. */
  readonly version: number
  /** SHA-256 of the source. */
  readonly sha256: string
  readonly config: FunctionConfig
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** Export `tool` of the module, for tools over the function; absent if the module has none. */
  readonly tool?: {
    readonly description?: string
    readonly read_only?: boolean
  }
  /** JSON Schema 2020-12 that the module exports; absent if it exports none. */
  readonly input_schema?: Readonly<Record<string, unknown>>
  /** JSON Schema 2020-12 that the module exports; absent if it exports none. */
  readonly output_schema?: Readonly<Record<string, unknown>>
  readonly source: string
}

export type Host = {
  readonly host: string
  readonly workspace_id: string
  /** The DNS record that proves the name. It stays as long as the workspace has the name. */
  readonly record: {
    readonly name: string
    readonly type: 'TXT'
    readonly value: string
  }
  /** Time at which the proof was found. `null`: it was not found yet, or another workspace has proved the name since. */
  readonly verified_at: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
}

export type IdentityProvider = {
  /** Id of the provider, which is part of the redirect URI. */
  readonly id: string
  /** Name of the provider on the sign-in page: "Continue with …". */
  readonly name: string
  /** Issuer identifier of the provider, with a discovery document (OpenID Connect Discovery 1.0). `http` is allowed only at an address in `egress.allow`. */
  readonly issuer: string
  readonly client_id: string
  /** Rule for sign-ins without a user account in the workspace. `open`: the account is created; `invite`: an invitation is required. Default: the `sign_up` of the workspace. */
  readonly sign_up?: 'invite' | 'open'
  readonly has_secret: boolean
  /** Redirect URI to register at the provider. */
  readonly redirect_uri: string
}

export type ImageSettings = {
  /** Sizes in pixels: `320` is a width, `x240` a height, `320x240` both; a side has at most 2560. Without any, no image is converted. */
  readonly sizes: readonly string[]
  /** Formats of converted images; an image in another one gets the first. Default: jpeg, png, webp. */
  readonly formats: readonly ('jpeg' | 'png' | 'webp' | 'avif')[]
}

export type ImportResult = {
  /** Number of lines processed, including blank lines. */
  readonly lines: number
  readonly created: number
  /** Number of documents whose id existed already, and which were left. */
  readonly existing: number
  /** Number of documents that existed and have the values of their lines now; absent in mode `create`. */
  readonly updated?: number
  readonly failed: number
  /** Errors of the first 20 lines that failed. */
  readonly errors: readonly {
    readonly line: number
    readonly code: string
    readonly detail: string
    readonly pointer?: string
    /** Name of the column, for CSV. */
    readonly column?: string
  }[]
}

export type InferredSchema = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly collection: string
  /** JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Number of documents that were read: the oldest and the newest. */
  readonly sampled: number
}

export type Limits = {
  readonly rates: readonly RateLimit[]
  readonly sizes: {
    readonly url_bytes: number
    readonly header_bytes: number
    readonly body_bytes: number
    readonly document_bytes: number
    readonly document_depth: number
    readonly document_keys: number
    readonly field_name_bytes: number
    readonly filters: number
    readonly page_size: number
    readonly query_limit: number
    readonly batch_bytes: number
    readonly batch_ops: number
    readonly cascade_documents: number
    readonly schema_bytes: number
    readonly object_request_bytes: number
    readonly object_key_bytes: number
    readonly open_uploads: number
    readonly open_uploads_of_user: number
    readonly event_bytes: number
    readonly flow_source_bytes: number
    readonly flow_input_bytes: number
    readonly function_source_bytes: number
    readonly function_input_bytes: number
    readonly function_result_bytes: number
    readonly idempotency_key_chars: number
  }
}

export type ListedSchedule = {
  readonly id: string
  readonly flow_id: string
  readonly flow_name: string
  /** Key that identifies the schedule within the flow, across versions. */
  readonly key: string
  readonly spec: {
    readonly cron?: string
    /** Interval between starts of the flow, in milliseconds. */
    readonly every_ms?: number
    /** Time between the end of an execution and the next start, in milliseconds. */
    readonly after_ms?: number
    /** Time zone of `cron`. Default: `UTC`. */
    readonly timezone?: string
    readonly overlap: 'skip' | 'buffer_one' | 'buffer_all' | 'cancel_other' | 'allow_all'
    /** Maximum delay of a start, in milliseconds; later starts are skipped. */
    readonly catch_up_ms: number
    /** Maximum random delay of each start, in milliseconds. */
    readonly jitter_ms?: number
  }
  /** Version of the flow that the schedule starts. */
  readonly version: number
  readonly paused: boolean
  /** Reason why the schedule was paused or resumed. */
  readonly note: string | null
  readonly last_run: {
    readonly id: string
    readonly status: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly started_at: string
    readonly ended_at: string | null
  } | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  readonly next: readonly string[] | null
}

export type LiveDocument = {
  readonly id: string
  readonly version: number
  readonly document: SelectedDocument
}

export type LiveRemoval = {
  readonly id: string
  readonly version: number
}

/** First event of a stream of log lines. */
export type LogStreamReady = {
  readonly run: string
  /** Status of the run at the start of the stream. */
  readonly status: string
  /** Number of the line that the stream follows. */
  readonly cursor: number
}

export type McpCall = {
  /** Position in the chain of the server, without gaps. */
  readonly seq: number
  readonly tenant_id: string
  readonly workspace_id: string
  readonly server_id: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly time: string
  /** Channel of the call: the MCP endpoint, the REST API, or a flow. */
  readonly channel: 'wire' | 'rest' | 'flow'
  readonly principal: string | null
  /** Id of the OAuth client that the token was issued to. */
  readonly client_id: string | null
  /** IP address of the client, for calls at the MCP endpoint. */
  readonly address: string | null
  readonly version: number | null
  /** SHA-256 of the manifest of the version. */
  readonly version_hash: string | null
  readonly tool: string | null
  /** OAuth scope that allowed the call, or that was missing. */
  readonly scope: string | null
  /** SHA-256 of the arguments as canonical JSON. */
  readonly arguments_sha256: string | null
  /** Names and JSON types of the arguments, `<name>: <type>`; never values. */
  readonly arguments_shape: readonly string[] | null
  readonly outcome: 'ok' | 'tool_error' | 'rpc_error' | 'denied'
  /** HTTP status of the response. */
  readonly transport_status: number
  /** Code of the JSON-RPC error. `null`: the response has none. */
  readonly rpc_code: number | null
  /** Code of the problem. */
  readonly code: string | null
  readonly duration_ms: number
  readonly request_id: string | null
  /** SHA-256 digest in hexadecimal. */
  readonly prev_hash: string
  /** SHA-256 digest in hexadecimal. */
  readonly hash: string
}

export type McpCallResult = {
  readonly content: readonly ({
    readonly type: 'text'
    readonly text: string
  } | {
    readonly type: 'image' | 'audio'
    readonly data: string
    readonly mimeType: string
  } | {
    readonly type: 'resource_link'
    readonly uri: string
    readonly name: string
    readonly description?: string
    readonly mimeType?: string
    /** Size in bytes. */
    readonly size?: number
  } | {
    readonly type: 'resource'
    readonly resource: {
      readonly uri: string
      readonly mimeType?: string
      readonly text: string
    } | {
      readonly uri: string
      readonly mimeType?: string
      readonly blob: string
    }
  })[]
  readonly structured_content?: Readonly<Record<string, unknown>>
  readonly is_error: boolean
  /** Code of the problem, if the tool reports one. */
  readonly code?: string
}

export type McpCandidate = {
  readonly candidate: string
  readonly name: string
  readonly title: string
  readonly description: string
  /** JSON Schema 2020-12 of the arguments or of the result. */
  readonly input_schema: Readonly<Record<string, unknown>>
  /** JSON Schema 2020-12 of the arguments or of the result. */
  readonly output_schema?: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, boolean>>
  /** Hints that the upstream server declares for its tool. The curation may adopt them, but not relax them further. */
  readonly claimed_annotations?: Readonly<Record<string, boolean>>
  readonly scope: string
  readonly risk: 'read' | 'write'
}

export type McpClient = {
  readonly client_id: string
  readonly name: string
  /** Scopes of the client. `null`: all scopes of the server. */
  readonly scopes: readonly string[] | null
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
}

export type McpClientWithSecret = {
  readonly client_id: string
  readonly name: string
  /** Scopes of the client. `null`: all scopes of the server. */
  readonly scopes: readonly string[] | null
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Secret of the client, shown only once. */
  readonly client_secret: string
}

export type McpDiff = {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly {
    readonly name: string
    readonly fields: readonly string[]
  }[]
  /** Scopes that reach further, which an admin has to approve. */
  readonly widened: readonly McpWidenedScope[]
  /** Sentences about the changes that matter to people who use the server. */
  readonly summary: readonly string[]
}

export type McpPreview = {
  readonly instructions: string
  /** Tools as in `tools/list`, without tool search. */
  readonly tools: readonly McpTool[]
  /** Size of the tools as JSON, in bytes. */
  readonly bytes: number
  /** Number of tokens, estimated at four characters per token. */
  readonly tokens: number
  /** Content of `tools/list` with tool search; `active`: tool search is on for this draft. */
  readonly with_search: {
    readonly active: boolean
    readonly tools: readonly McpTool[]
    readonly bytes: number
    readonly tokens: number
  }
  /** Groups of tools, in the order in which they are shown. */
  readonly groups: readonly {
    readonly name: string
    readonly title: string
    readonly description?: string
    /** Candidates, or names of tools. A tool is in one group at most. */
    readonly tools: readonly string[]
  }[]
  readonly diff: McpDiff
  /** Class of the change. `breaking`: calls that clients made before may now fail. `suspect`: texts look as if they instruct models, or hide something. */
  readonly class: 'safe' | 'breaking' | 'suspect'
  readonly reasons: readonly McpReviewReason[]
  /** Findings of the check of texts and schemas. */
  readonly findings: readonly {
    readonly tool: string | null
    /** JSON pointer into the tool, or into the server if no tool is named. */
    readonly pointer: string
    readonly rule: string
    readonly severity: 'error' | 'suspect' | 'advice'
    readonly detail: string
  }[]
}

export type McpPublication = {
  readonly version: number
  /** SHA-256 of the canonical manifest. */
  readonly hash: string
  readonly state: 'active' | 'needs_approval'
  /** Class of the change. `breaking`: calls that clients made before may now fail. `suspect`: texts look as if they instruct models, or hide something. */
  readonly class: 'safe' | 'breaking' | 'suspect'
  /** Reasons for the class. */
  readonly reasons: readonly McpReviewReason[]
  readonly diff: McpDiff
  readonly scopes: readonly string[]
}

export type McpReviewReason = {
  readonly tool: string | null
  readonly detail: string
}

export type McpServer = {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly description: string
  readonly state: 'created' | 'curated' | 'published' | 'suspended'
  readonly active_version: number | null
  /** Number of the latest published version. 0: none. */
  readonly latest_version: number
  /** Tools that clients see. `granted`: those that their token allows; `grantable`: also those whose scope they may obtain; `auto`: `grantable` if a person uses the client, `granted` otherwise. */
  readonly list: 'auto' | 'granted' | 'grantable'
  /** Response to a call without the scope. `http`: 403 with a challenge; `tool_error`: a tool error; `auto`: a challenge, unless the client cannot use it. */
  readonly challenge: 'auto' | 'http' | 'tool_error'
  /** Tool search: clients see the pinned tools, `tool_search` and `tool_call` instead of all tools. `auto`: on above 40 tools. */
  readonly search: 'auto' | 'on' | 'off'
  /** Form in which MCP clients receive results of tools with an output schema: `structured` content, `text`, or `both`, since some hosts show their model only one of them. Default: `both`. */
  readonly results: 'both' | 'text' | 'structured'
  /** Issuer of the tokens for the server: an `issuer` of OIDC_ISSUERS that serves the tenant. `null`: the platform. Default: `null`. */
  readonly authorization_server: string | null
  readonly curation: {
    readonly tools: Readonly<Record<string, {
      readonly enabled: boolean
      /** True if the tool is in `tools/list` even if clients use tool search. */
      readonly pinned?: boolean
      readonly name?: string
      readonly title?: string
      readonly description?: string
      /** Last part of the OAuth scope of the tool. */
      readonly scope?: string
      /** Changes to arguments, by name. */
      readonly arguments?: Readonly<Record<string, {
        /** Value of the argument in every call; clients do not see the argument. */
        readonly fixed?: unknown
        /** True if clients do not see the argument and cannot set it. */
        readonly hidden?: boolean
        /** Value in calls without the argument. */
        readonly default?: unknown
        readonly description?: string
        /** Keywords that restrict the values: enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern, minItems, maxItems. They cannot allow more than the source. */
        readonly schema?: Readonly<Record<string, unknown>>
      }>>
      /** Arguments of example calls, shown to models. */
      readonly examples?: readonly Readonly<Record<string, unknown>>[]
      /** Limits on calls of the tool. */
      readonly limits?: {
        readonly result_bytes?: number
        readonly timeout_seconds?: number
        /** Maximum number of seconds that a call of a flow waits for its output. */
        readonly wait_seconds?: number
        /** Maximum number of calls per minute by all callers together; the same number may come in one burst. */
        readonly calls_per_minute?: number
      }
      /** Annotations of the tool, which may only be stricter than those of the source. */
      readonly annotations?: {
        readonly readOnlyHint?: boolean
        readonly destructiveHint?: boolean
        readonly idempotentHint?: boolean
        readonly openWorldHint?: boolean
      }
    }>>
    /** Groups of tools, in the order in which they are shown. */
    readonly groups: readonly {
      readonly name: string
      readonly title: string
      readonly description?: string
      /** Candidates, or names of tools. A tool is in one group at most. */
      readonly tools: readonly string[]
    }[]
    readonly prompts: Readonly<Record<string, {
      readonly title?: string
      readonly description?: string
      readonly arguments?: readonly {
        readonly name: string
        readonly description?: string
        readonly required?: boolean
        /** Values that clients offer as completions; other values are accepted, too. */
        readonly values?: readonly string[]
      }[]
      /** Messages of the prompt; `{{name}}` in a text stands for an argument. */
      readonly messages: readonly ({
        readonly role: 'user' | 'assistant'
        readonly content: {
          readonly type: 'text'
          readonly text: string
        } | {
          readonly type: 'image' | 'audio'
          readonly data: string
          readonly mimeType: string
        } | {
          readonly type: 'resource_link'
          readonly uri: string
          readonly name: string
          readonly description?: string
          readonly mimeType?: string
          /** Size in bytes. */
          readonly size?: number
        } | {
          readonly type: 'resource'
          readonly resource: {
            readonly uri: string
            readonly mimeType?: string
            readonly text: string
          } | {
            readonly uri: string
            readonly mimeType?: string
            readonly blob: string
          }
        }
      })[]
    }>>
    readonly resources: Readonly<Record<string, {
      /** URI of the resource; with names in braces, a template: `guide://products/{id}`. `tenon:` and `tenon-…:` are reserved. */
      readonly uri: string
      readonly title?: string
      readonly description?: string
      readonly mime_type?: string
      readonly text?: string
      /** Content in base64, instead of `text`. */
      readonly blob?: string
    }>>
  }
  /** Path of the MCP endpoint, below the base URL. */
  readonly path: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** Time of the newest entry in the call log, including refused calls. */
  readonly last_call_at: string | null
  /** Exposure of the active version; a tool counts by its strongest effect. */
  readonly exposure: {
    /** Number of tools that only read. */
    readonly reads: number
    /** Number of tools that add data. */
    readonly adds: number
    /** Number of tools that change or delete data. */
    readonly changes: number
    /** Number of these tools that may reach other systems. */
    readonly open_world: number
    /** Number of OAuth clients that were created for the server. */
    readonly clients: number
  }
}

export type McpSource = {
  readonly id: string
  readonly name: string
  readonly kind: 'openapi' | 'mcp' | 'image'
  readonly url: string
  readonly base_url: string | null
  /** Headers of every request, by name. Tools cannot replace them. */
  readonly headers: Readonly<Record<string, {
    /** Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`. */
    readonly secret: string
    /** Text in front of the secret, such as `Bearer `. */
    readonly prefix?: string
  } | {
    readonly value: string
  }>>
  readonly image: {
    readonly reference: string
    readonly command_args: readonly string[]
    /** Environment variables of the container, by name. */
    readonly env: Readonly<Record<string, {
      /** Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`. */
      readonly secret: string
    } | {
      readonly value: string
    }>>
    readonly limits: {
      readonly memory_mb: number
      readonly cpus: number
      readonly pids: number
      readonly timeout_seconds: number
    }
  } | null
  /** Number of pinned definitions. */
  readonly tools: number
  /** SHA-256 of the pinned definitions. */
  readonly hash: string
  /** Definitions that are no tools, each with the reason. */
  readonly skipped: readonly {
    readonly part: string
    readonly reason: string
  }[]
  /** State of the source. `drifted`: when last read, it differed from the pinned definitions. `failed`: it could not be read. */
  readonly state: 'ready' | 'drifted' | 'failed'
  readonly drift: {
    /** Hash of the definitions that were read, to be passed as `accept` of a refresh. */
    readonly hash: string
    /** Names of definitions, at most 50. */
    readonly added: readonly string[]
    /** Names of definitions, at most 50. */
    readonly removed: readonly string[]
    /** Names of definitions, at most 50. */
    readonly changed: readonly string[]
    /** Members of each changed definition that differ. */
    readonly changed_fields: Readonly<Record<string, readonly string[]>>
  } | null
  readonly error: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly checked_at: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type McpTool = {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, boolean>>
  readonly _meta?: Readonly<Record<string, unknown>>
}

export type McpVersion = {
  readonly version: number
  /** SHA-256 of the canonical manifest, in hexadecimal. */
  readonly hash: string
  /** Compact JWS (RFC 7515), signed with a key of `/.well-known/tenon-manifest-keys`; its payload has `server_id`, `version`, `hash`, `published_at`. */
  readonly signature: string
  readonly active: boolean
  readonly tools: readonly {
    readonly name: string
    readonly title: string
    readonly scope: string
  }[]
  readonly published_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly published_at: string
  readonly state: 'published' | 'needs_approval'
  /** Scopes that reach further, for which the version needs, or needed, approval. */
  readonly widened: readonly McpWidenedScope[]
  /** Class of the change. `breaking`: calls that clients made before may now fail. `suspect`: texts look as if they instruct models, or hide something. */
  readonly class: 'safe' | 'breaking' | 'suspect'
  /** Reasons for the class; a class other than `safe` needs approval. */
  readonly reasons: readonly McpReviewReason[]
  readonly approved_by: string | null
  readonly approved_at: string | null
}

export type McpVersionWithManifest = {
  readonly version: number
  /** SHA-256 of the canonical manifest, in hexadecimal. */
  readonly hash: string
  /** Compact JWS (RFC 7515), signed with a key of `/.well-known/tenon-manifest-keys`; its payload has `server_id`, `version`, `hash`, `published_at`. */
  readonly signature: string
  readonly active: boolean
  readonly tools: readonly {
    readonly name: string
    readonly title: string
    readonly scope: string
  }[]
  readonly published_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly published_at: string
  readonly state: 'published' | 'needs_approval'
  /** Scopes that reach further, for which the version needs, or needed, approval. */
  readonly widened: readonly McpWidenedScope[]
  /** Class of the change. `breaking`: calls that clients made before may now fail. `suspect`: texts look as if they instruct models, or hide something. */
  readonly class: 'safe' | 'breaking' | 'suspect'
  /** Reasons for the class; a class other than `safe` needs approval. */
  readonly reasons: readonly McpReviewReason[]
  readonly approved_by: string | null
  readonly approved_at: string | null
  /** Manifest that was published; `hash` is the SHA-256 of its canonical JSON. */
  readonly manifest: Readonly<Record<string, unknown>>
}

export type McpWidenedScope = {
  readonly scope: string
  readonly tools: readonly {
    readonly name: string
    readonly title: string
    readonly effect: 'reads' | 'adds' | 'changes'
    /** Previous effect of the tool. `null`: the tool is new in the scope. */
    readonly was: 'reads' | 'adds' | 'changes' | null
  }[]
}

export type Metric = {
  readonly name: string
  readonly unit: string
  readonly help: string
  /** Kind of the values. `count`: the sum of a step; `level`: the value at the end of a step; `quantiles`: of the durations of a step. */
  readonly kind: 'count' | 'level' | 'quantiles'
  /** Name of the label. `null`: the metric has none. */
  readonly label: string | null
  /** Values of the label. */
  readonly values: readonly string[]
}

export type OAuthClient = {
  /** Id of the client. For a client that describes itself by a metadata document, the URL of the document. */
  readonly client_id: string
  readonly kind: 'machine' | 'public'
  readonly name: string
  /** Role of a machine client. `null`: a public client, where people have their own roles. */
  readonly role: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service' | null
  /** Tenant of the client. `null`: all tenants. */
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  /** Subjects that sign in at a public client: accounts, or the users of its workspace. Default: `accounts`. */
  readonly audience: 'accounts' | 'users'
  /** Redirect URIs: `https`, `http` at a loopback address with any port, or the scheme of an application, such as `cursor://host/path`. A machine client has no redirect URIs. */
  readonly redirect_uris: readonly string[]
  /** True if the machine client sees payloads of executions and runs that others have started. It is set when the client is made, by a caller who sees them. */
  readonly sees_payloads: boolean
  /** True if the client registered itself (MCP servers only). */
  readonly registered: boolean
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly rotated_at: string | null
}

export type OAuthClientWithSecret = {
  /** Id of the client. For a client that describes itself by a metadata document, the URL of the document. */
  readonly client_id: string
  readonly kind: 'machine' | 'public'
  readonly name: string
  /** Role of a machine client. `null`: a public client, where people have their own roles. */
  readonly role: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service' | null
  /** Tenant of the client. `null`: all tenants. */
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  /** Subjects that sign in at a public client: accounts, or the users of its workspace. Default: `accounts`. */
  readonly audience: 'accounts' | 'users'
  /** Redirect URIs: `https`, `http` at a loopback address with any port, or the scheme of an application, such as `cursor://host/path`. A machine client has no redirect URIs. */
  readonly redirect_uris: readonly string[]
  /** True if the machine client sees payloads of executions and runs that others have started. It is set when the client is made, by a caller who sees them. */
  readonly sees_payloads: boolean
  /** True if the client registered itself (MCP servers only). */
  readonly registered: boolean
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly rotated_at: string | null
  /** Secret of a machine client, shown only once. */
  readonly client_secret?: string
}

export type ObjectDescription = {
  readonly bucket: string
  readonly key: string
  /** Size in bytes. */
  readonly size: number
  /** ETag of the bytes, as the object itself has it. */
  readonly etag: string
  /** Differs after each change of the object, of its metadata or its tags. In quotes, it is the `ETag` of this reply. */
  readonly version: string
  /** Headers that are sent with the bytes. */
  readonly headers: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, string>>
  readonly tags: Readonly<Record<string, string>>
  /** Id of the user who created the object; `null`: a key did. */
  readonly owner: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly last_modified: string
}

export type ObjectLink = {
  /** The link. Its request needs no other credential. */
  readonly url: string
  readonly method: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly expires_at: string
  /** Headers that a `PUT` must have. */
  readonly headers?: Readonly<Record<string, string>>
}

export type ObjectPage = {
  readonly data: readonly ObjectSummary[]
  readonly page: {
    readonly size: number
    readonly next: string | null
    readonly has_more: boolean
  }
  /** Common prefixes, each ending with the delimiter; with `delimiter` only. */
  readonly prefixes?: readonly string[]
}

export type ObjectRemoval = {
  readonly id: string
  readonly tenant_id: string
  readonly type: string
  /** Bucket and prefix. */
  readonly target: string
  readonly state: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled'
  readonly steps: readonly OperationStep[]
  readonly error: unknown
  /** Report of a deletion: `before` and `after`, counts of what the tenant or workspace had, and `signature`, a JWS of the report. Report of an export or import: `counts` of what was written or stored so far; at the end `missing`, what has to be set by hand after an import; and of an export `archive` with its `bytes`, its `sha256` and `expires_at`, and until then `begun_at`, when its last attempt began. Null for other operations. */
  readonly result: unknown
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly finished_at: string | null
  /** Number of objects that were deleted so far. */
  readonly removed: number
}

export type ObjectSummary = {
  readonly key: string
  /** Size in bytes. */
  readonly size: number
  readonly etag: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly last_modified: string
}

export type Operation = {
  readonly id: string
  readonly tenant_id: string
  readonly type: string
  readonly target: string
  readonly state: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled'
  readonly steps: readonly OperationStep[]
  readonly error: unknown
  /** Report of a deletion: `before` and `after`, counts of what the tenant or workspace had, and `signature`, a JWS of the report. Report of an export or import: `counts` of what was written or stored so far; at the end `missing`, what has to be set by hand after an import; and of an export `archive` with its `bytes`, its `sha256` and `expires_at`, and until then `begun_at`, when its last attempt began. Null for other operations. */
  readonly result: unknown
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  readonly finished_at: string | null
}

export type OperationStep = {
  readonly name: string
  /** State of the step. A step is `waiting` after an attempt that failed: the next one follows by itself within a minute, and `code` and `detail` say why. */
  readonly state: 'running' | 'waiting' | 'succeeded' | 'failed'
  /** Code of the problem of the last attempt. */
  readonly code?: string
  /** Reason why the last attempt failed. */
  readonly detail?: string
  /** Attempts so far, of a step that waits or failed. */
  readonly attempts?: number
}

export type OwnSession = {
  readonly id: string
  /** Path of the page of the platform that is open. `null`: a sign-in at the issuer, whose clients have tokens. */
  readonly page: string | null
  /** Browser and system, as the browser names them. */
  readonly device: string
  /** Address from which the person has signed in. */
  readonly address: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly last_used_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly expires_at: string
  /** True if it is the session of this request. */
  readonly current: boolean
}

export type PlannedStep = {
  /** Step as `pointer#iteration` in the repeated execution. */
  readonly step: string
  readonly name: string
  readonly kind: string
}

/** Problem (RFC 9457). Further members belong to the code. */
export type Problem = {
  /** Path of the page about the code. */
  readonly type: string
  readonly title: string
  /** HTTP status. */
  readonly status: number
  readonly detail?: string
  /** Path of the request. */
  readonly instance?: string
  /** Code, whose meaning never changes. Later versions may add codes. */
  readonly code: string
  /** Id under which the request is logged. */
  readonly request_id: string
  /** The next step of the caller. */
  readonly hint?: string
  readonly errors?: readonly ProblemError[]
}

export type ProblemError = {
  /** Part of the request. */
  readonly in: 'body' | 'path' | 'query' | 'header'
  /** Name of the field, parameter or header. */
  readonly name: string
  /** JSON pointer of the value in its part. */
  readonly pointer: string
  readonly detail: string
  /** Keyword of the schema of the collection that the value violates. */
  readonly keyword?: string
}

export type PublishedEvent = {
  readonly id: string
  readonly topic: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly time: string
}

export type PublishedFlowVersion = {
  readonly flow_id: string
  readonly version: number
  /** SHA-256 of the compiled form. */
  readonly sha256: string
  readonly source: string
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Diagnostics that do not prevent publishing. */
  readonly warnings: readonly Diagnostic[]
  /** Webhooks of the version; absent if the flow declares none. */
  readonly webhooks?: readonly {
    readonly id: string
    readonly name: string
    readonly url: string
    /** Secret of a new webhook, shown only once. */
    readonly secret?: string
  }[]
}

export type Quota = {
  /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
  readonly limit: number
  /** Amount that is used; of a quota of workspaces that a tenant has, what their limits add up to. `null`: not counted; time windows are counted only while they have a limit, and documents only if none are in MongoDB. */
  readonly used: number | null
  /** Amount that remains. `null`: no limit. */
  readonly remaining: number | null
  readonly resets_at?: string | null
}

export type Quotas = {
  readonly workspace_id?: string
  readonly tenant_id?: string
  readonly quotas: Readonly<Record<string, Quota>>
}

export type RateLimit = {
  /** Criterion by which requests are counted. */
  readonly policy: 'key' | 'subject' | 'address' | 'tenant' | 'tool'
  readonly per_minute: number
  /** Maximum number of requests in a burst. */
  readonly limit: number
  /** Seconds until an empty budget is full again. */
  readonly window_seconds: number
  /** Number of requests that remain in the budget after this one. */
  readonly remaining: number
}

export type RedrivenRuns = {
  readonly tenant_id: string
  readonly workspace_id: string
  readonly redriven: readonly {
    readonly run: string
    readonly as: string
  }[]
  /** Dead letters that were not run again because their caller has lost rights. */
  readonly refused: readonly {
    readonly run: string
    readonly detail: string
  }[]
  /** True if there are further dead letters; repeat the call for them, with `next` as `after`. */
  readonly has_more: boolean
  /** Id of the last dead letter that the call examined. `null`: none. */
  readonly next: string | null
}

export type RemovedObjects = {
  /** Number of objects that were deleted. */
  readonly removed: number
}

export type RenamedCollection = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly name: string
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly renamed_from: string
}

export type RerunPlan = {
  readonly from: PlannedStep | null
  /** Steps whose recorded results are reused. */
  readonly reused: readonly PlannedStep[]
  /** Steps with effects outside the execution that run again. */
  readonly again: readonly PlannedStep[]
  /** Steps completed before `from` that the version to run does not have. */
  readonly removed_steps: readonly PlannedStep[]
  /** Steps of `again` that are approvals, or flows with approvals, and were decided on other data, in another version, or by the subject that starts the rerun. */
  readonly approvals_repeated: readonly {
    /** Step as `pointer#iteration` in the repeated execution. */
    readonly step: string
    readonly name: string
    readonly kind: string
    readonly reason: string
  }[]
  /** Reasons why this rerun is not possible. */
  readonly refusals: readonly string[]
}

export type RotatedTriggerSecret = {
  readonly id: string
  /** Newly generated secret, shown only once. */
  readonly secret?: string
  /** URL with the new secret, for `verify: url`. */
  readonly url?: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly previous_until: string
}

export type Schedule = {
  readonly id: string
  readonly flow_id: string
  readonly flow_name: string
  /** Key that identifies the schedule within the flow, across versions. */
  readonly key: string
  readonly spec: {
    readonly cron?: string
    /** Interval between starts of the flow, in milliseconds. */
    readonly every_ms?: number
    /** Time between the end of an execution and the next start, in milliseconds. */
    readonly after_ms?: number
    /** Time zone of `cron`. Default: `UTC`. */
    readonly timezone?: string
    readonly overlap: 'skip' | 'buffer_one' | 'buffer_all' | 'cancel_other' | 'allow_all'
    /** Maximum delay of a start, in milliseconds; later starts are skipped. */
    readonly catch_up_ms: number
    /** Maximum random delay of each start, in milliseconds. */
    readonly jitter_ms?: number
  }
  /** Version of the flow that the schedule starts. */
  readonly version: number
  readonly paused: boolean
  /** Reason why the schedule was paused or resumed. */
  readonly note: string | null
  readonly last_run: {
    readonly id: string
    readonly status: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly started_at: string
    readonly ended_at: string | null
  } | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type ScheduleWithStatus = {
  readonly id: string
  readonly flow_id: string
  readonly flow_name: string
  /** Key that identifies the schedule within the flow, across versions. */
  readonly key: string
  readonly spec: {
    readonly cron?: string
    /** Interval between starts of the flow, in milliseconds. */
    readonly every_ms?: number
    /** Time between the end of an execution and the next start, in milliseconds. */
    readonly after_ms?: number
    /** Time zone of `cron`. Default: `UTC`. */
    readonly timezone?: string
    readonly overlap: 'skip' | 'buffer_one' | 'buffer_all' | 'cancel_other' | 'allow_all'
    /** Maximum delay of a start, in milliseconds; later starts are skipped. */
    readonly catch_up_ms: number
    /** Maximum random delay of each start, in milliseconds. */
    readonly jitter_ms?: number
  }
  /** Version of the flow that the schedule starts. */
  readonly version: number
  readonly paused: boolean
  /** Reason why the schedule was paused or resumed. */
  readonly note: string | null
  readonly last_run: {
    readonly id: string
    readonly status: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly started_at: string
    readonly ended_at: string | null
  } | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** Next start times; empty while the schedule is paused. */
  readonly next: readonly string[]
  /** Number of starts. */
  readonly taken: number
  /** Number of starts skipped because an earlier execution was still running. */
  readonly skipped: number
  /** Number of starts skipped because they were too late. */
  readonly missed: number
}

export type SchemaExport = {
  readonly schemas: readonly Readonly<Record<string, unknown>>[]
}

export type SchemaPlan = {
  /** Changes in their order. Without any, applying the plan does nothing. */
  readonly changes: readonly {
    /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
    readonly collection: string
    /** Member of the declaration; `collection` if it is new. */
    readonly member: string
    /** Effect of the change. `instant`: it takes no time; `validate`: documents are read; `rewrite`: values of documents move while writers wait; `index`: an index is built; `destructive`: documents are deleted. */
    readonly effect: 'instant' | 'validate' | 'rewrite' | 'index' | 'destructive'
    readonly detail: string
  }[]
  /** Fingerprint of the plan, for `POST /v1/schemas/apply`. */
  readonly fingerprint: string
}

export type SelectedDocument = {
  readonly id: string
  readonly _created_at?: string
  readonly _updated_at?: string
  readonly _version?: number
  /** Id of the end user who created the document; absent if none did. */
  readonly _owner?: string
  /** Similarity of a text of the document with the one of `near`: above 0, at most 1. */
  readonly _similarity?: number
  /** Metres from the place that the list is ordered by, along a great circle. */
  readonly _distance?: number
  /** Score of the document for `_search`, by the weights of its fields: 0 to 1. */
  readonly _score?: number
  /** Parts of the texts of the document that `_search` has found, by field: HTML whose only tag is `<mark>`. */
  readonly _highlight?: Readonly<Record<string, string>>
  /** Documents at the other end of references, by the names of `expand`. */
  readonly _expand?: Readonly<Record<string, unknown>>
}

export type Session = {
  readonly id: string
  /** Path of the page of the platform that is open. `null`: a sign-in at the issuer, whose clients have tokens. */
  readonly page: string | null
  /** Browser and system, as the browser names them. */
  readonly device: string
  /** Address from which the person has signed in. */
  readonly address: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly last_used_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly expires_at: string
}

export type SettingChange = {
  /** JSON Pointer of the setting. */
  readonly pointer: string
  /** Value before the change. Null: none. */
  readonly before: unknown
  /** Value after the change. Null: none. */
  readonly after: unknown
}

export type SignInPolicy = {
  /** Tenant whose accounts the policy is for. `null`: the accounts of operators. */
  readonly tenant_id: string | null
  /** True if an account may do nothing with a token that it got without a second factor. Machines have none, and are not affected. */
  readonly require_mfa: boolean
  readonly updated_by: string | null
  readonly updated_at: string | null
}

export type SignalledExecution = {
  /** Id of the event. */
  readonly id: string
}

export type SigningKey = {
  readonly kid: string
}

export type Status = {
  /** State of the installation as the process that answers sees it. `warn`: a part that is not required fails, or a task queue has no worker. `fail`: balancers send this process no further requests. */
  readonly status: 'pass' | 'warn' | 'fail'
  /** True if the process that answers is about to end. */
  readonly draining: boolean
  readonly parts: readonly {
    /** Part of the installation: `postgres`, `temporal`, `s3`, `valkey`, `mongodb`, or a check of the process. Problems with the code `dependency_unavailable` name it as `part`. */
    readonly name: string
    /** True if the process gets no requests without the part. Without any other part, only routes that need it answer 503. */
    readonly required: boolean
    readonly status: 'pass' | 'fail'
    /** Reason of the failure. */
    readonly cause?: 'refused' | 'unresolved' | 'tls' | 'expired' | 'untrusted' | 'misnamed' | 'certificate' | 'namespace' | 'attributes' | 'denied' | 'full' | 'busy' | 'readonly' | 'outdated' | 'newer' | 'wrong' | 'timeout' | 'closed' | 'failed'
    /** Finding and next step, in a sentence. */
    readonly detail?: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly since: string
    /** Milliseconds of the last check. */
    readonly ms: number
  }[]
  /** Task queues that no worker polls. */
  readonly idle_queues: readonly {
    readonly queue: string
    readonly since: string | null
    /** Finding and next step, in sentences. */
    readonly detail: string
  }[]
}

export type StoredObject = {
  readonly bucket: string
  readonly key: string
  /** Size in bytes. */
  readonly size: number
  readonly etag: string
  /** True if the object did not exist before. */
  readonly created: boolean
}

/** The last event of a stream. The member `retry` of the frame says when to connect again. */
export type StreamEnd = {
  /** Reason: `ended`, `draining`, or the code of a problem. */
  readonly code: string
}

/** Sign that events were dropped before they could be sent: read the current state again. */
export type SubscriptionGap = {
  /** Position after which events are missing. */
  readonly after: string
  /** Position from which the events are complete again. */
  readonly earliest: string
}

/** First event of a subscription: it gets everything from here on. */
export type SubscriptionReady = {
  readonly topic: string
  /** Position from which the events follow. */
  readonly cursor: string
}

export type TemporalPayloads = {
  readonly payloads: readonly {
    readonly metadata?: Readonly<Record<string, string>>
    readonly data?: string
  }[]
}

export type Tenant = {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly state: 'provisioning' | 'active' | 'suspended' | 'deleting' | 'deleted' | 'provisioning_failed'
  /** Time of the purge, of one that is being deleted. Until then it can be restored. */
  readonly delete_after: string | null
  readonly suspended_at: string | null
  readonly suspended_by: 'operator' | 'tenant_admin' | null
  readonly suspended_reason: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type TenantRetention = {
  /** Time for which entries of the audit log are kept, from 30d to 3650d. Default: `400d`. Format: `90s`, `15m`, `1h`. */
  readonly audit?: string
  /** Time for which ended operations are kept, from 3d to 3650d. Default: `90d`. Format: `90s`, `15m`, `1h`. */
  readonly operations?: string
}

export type TimeSeries = {
  readonly metric: string
  readonly unit: string
  readonly window: string
  readonly step: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly from?: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly to?: string
  readonly series: readonly {
    readonly labels: Readonly<Record<string, string>>
    readonly points: readonly (readonly (string | number | null)[])[]
  }[]
  /** Reason why values of the level are `null`: what it measures is not counted. */
  readonly not_counted?: string
}

export type Trigger = {
  readonly id: string
  readonly kind: 'schedule' | 'webhook' | 'event'
  /** Key that identifies the trigger in the definition, across versions. */
  readonly key: string
  readonly flow_id: string
  readonly flow_name: string
  /** Version of the flow that the trigger starts. */
  readonly version: number
  readonly paused: boolean
  /** URL for deliveries to a webhook. */
  readonly url?: string
  /** Event counts of an event trigger, since it was created. */
  readonly events?: {
    /** Number of events of the types that the filters name. */
    readonly seen: number
    /** Number of these events that a filter accepted. */
    readonly matched: number
  }
  /** Period whose events an event trigger missed, because the stream no longer had them. */
  readonly gap?: {
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly from: string
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly to: string
  }
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type TriggerTest = {
  /** True if the trigger accepts the event. */
  readonly matches: boolean
  /** Result of each filter, in the order of the definition; empty if the trigger takes every event. */
  readonly filters: readonly boolean[]
}

export type TruncatedCollection = {
  /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
  readonly name: string
  readonly truncated: true
}

export type UsageRecord = {
  /** Fixed id: the same hour of a workspace has the same record, however often it is read. */
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly from: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly to: string
  /** Amounts that are not 0. */
  readonly amounts: readonly {
    readonly metric: string
    readonly labels: Readonly<Record<string, string>>
    readonly unit: string
    /** Sum of the hour; of documents, bytes and users the level at its end. `null`: it is not counted, as `not_counted` says. */
    readonly value: number | null
    /** Reason why the value is `null`. */
    readonly not_counted?: string
  }[]
}

export type User = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly email: string
  readonly email_verified: boolean
  readonly name: string
  /** Claims for access rules, copied into tokens as `claims`: at most 8192 bytes of JSON, 5 levels. The user cannot change them. */
  readonly claims: Readonly<Record<string, unknown>>
  readonly status: 'invited' | 'active' | 'disabled'
  /** True if signing in with a password also requires a code. */
  readonly second_factor: boolean
  /** Number of passkeys. */
  readonly passkeys: number
  /** Issuers of the identity providers that the user has signed in with. */
  readonly identities: readonly string[]
  /** Origin of the user: `sign-up`, `identity-provider`, or the subject that invited the user. */
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  readonly last_login_at: string | null
}

export type UserRemovalPreview = {
  readonly id: string
  readonly dry_run: true
  /** Number of documents that the user owns, by collection. */
  readonly documents: Readonly<Record<string, number>>
  /** Number of objects that the user has created, or that are below the own prefixes of the user. */
  readonly objects: number
  /** Number of executions that the user has started or caused; of `data=anonymize` alone, like the other members after `objects`. */
  readonly executions?: number
  /** Number of runs of functions that the user has started or caused. */
  readonly runs?: number
  /** Number of bulk changes that the user has asked for or caused. */
  readonly bulk_changes?: number
  /** Number of approvals that name the user. */
  readonly approvals?: number
}

export type UserWithInvitation = {
  readonly id: string
  readonly tenant_id: string
  readonly workspace_id: string
  readonly email: string
  readonly email_verified: boolean
  readonly name: string
  /** Claims for access rules, copied into tokens as `claims`: at most 8192 bytes of JSON, 5 levels. The user cannot change them. */
  readonly claims: Readonly<Record<string, unknown>>
  readonly status: 'invited' | 'active' | 'disabled'
  /** True if signing in with a password also requires a code. */
  readonly second_factor: boolean
  /** Number of passkeys. */
  readonly passkeys: number
  /** Issuers of the identity providers that the user has signed in with. */
  readonly identities: readonly string[]
  /** Origin of the user: `sign-up`, `identity-provider`, or the subject that invited the user. */
  readonly created_by: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  readonly last_login_at: string | null
  /** Link to set a password, shown only once. `null`: it was only mailed. A repetition with the same Idempotency-Key returns it again and sends no mail. */
  readonly invitation_url: string | null
}

export type WeightedVersion = {
  readonly version: number
  /** Weight of the version; its share is the weight divided by the sum of all weights. */
  readonly weight: number
}

export type Workspace = {
  readonly id: string
  readonly tenant_id: string
  readonly name: string
  readonly slug: string
  readonly bucket: string | null
  /** Environment of the workspace. Tools that apply each saved file of a project at once refuse `production`. */
  readonly environment: 'development' | 'production'
  readonly state: 'provisioning' | 'active' | 'suspended' | 'deleting' | 'deleted' | 'provisioning_failed'
  /** Time of the purge, of one that is being deleted. Until then it can be restored. */
  readonly delete_after: string | null
  readonly suspended_at: string | null
  readonly suspended_by: 'operator' | 'tenant_admin' | null
  readonly suspended_reason: string | null
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
}

export type WorkspaceRetention = {
  /** Time for which ended executions are kept, from 2h to 3650d. Default: no limit. Format: `90s`, `15m`, `1h`. */
  readonly executions?: string
  /** Time for which ended runs of functions are kept with their logs (dead letters at least 30d), from 2h to 3650d. Default: `7d`. Format: `90s`, `15m`, `1h`. */
  readonly function_runs?: string
  /** Time for which calls of MCP servers are kept in their log, from 30d to 3650d. Default: `400d`. Format: `90s`, `15m`, `1h`. */
  readonly mcp_calls?: string
  /** Time for which counts of requests by the minute are kept, from 3d to 3650d. Default: `90d`. Format: `90s`, `15m`, `1h`. */
  readonly meters?: string
  /** Time for which records of the usage of each hour are kept, from 30d to 3650d. Default: `400d`. Format: `90s`, `15m`, `1h`. */
  readonly usage?: string
  /** Time for which a repeated webhook delivery is recognized, from 3d to 3650d. Default: `30d`. Format: `90s`, `15m`, `1h`. */
  readonly webhook_deliveries?: string
  /** Archive to which each execution is written as `executions/<flow>/<id>.json` before it is removed. */
  readonly archive?: {
    /** Name of the bucket of the workspace. */
    readonly bucket: string
  }
}

export type WorkspaceSettings = {
  readonly workspace_id: string
  /** Experimental features that are enabled. */
  readonly experimental: readonly ('mcp.flow_tools' | 'mcp.images')[]
  readonly egress: {
    readonly allow: readonly string[]
  }
  readonly anon: {
    /** Collections that anon keys read besides those that `access.anon.read` of a declaration opens. `read`: undeclared collections and those whose declaration has no `access`; `none`: no others. Default: `none`. */
    readonly collections: 'read' | 'none'
    /** Objects that anon keys read. `public`: those below the prefixes of `objects.public_read`; `none`: no objects. Default: `none`. */
    readonly objects: 'none' | 'public'
    /** Events that anon keys receive. `workspace`: published events and changes of their own workspace; `none`: no events. Default: `workspace`. */
    readonly events: 'workspace' | 'none'
  }
  readonly cors: {
    readonly origins: readonly string[]
  }
  readonly operators: {
    /** Access of operators to the data of the workspace. `allowed`: they get data tokens; `refused`: only admins of the workspace and its tenant do, and no operator can change that. */
    readonly data: 'allowed' | 'refused'
  }
  readonly auth: AuthSettings
  readonly objects: {
    /** Prefixes of the object keys that anon keys may read. */
    readonly public_read: readonly string[]
    readonly user: {
      /** Prefixes of the object keys that users may read, each ending with a slash: `avatars/{user.id}/`. */
      readonly read: readonly string[]
      /** Prefixes of the object keys that users may write, each ending with a slash: `avatars/{user.id}/`. */
      readonly write: readonly string[]
      /** Prefixes of the object keys that users may delete, each ending with a slash: `avatars/{user.id}/`. */
      readonly delete: readonly string[]
    }
    readonly images: ImageSettings
  }
  readonly topics: {
    readonly user: {
      /** Topics that users may subscribe to: `lobby`, or `chat.{user.id}.*` for all topics below `chat.{user.id}`. */
      readonly subscribe: readonly string[]
      /** Topics that users may publish to: `lobby`, or `chat.{user.id}.*` for all topics below `chat.{user.id}`. */
      readonly publish: readonly string[]
    }
  }
  readonly retention: WorkspaceRetention
  /** Reason why the last removal ended early; absent if it did not. */
  readonly retention_failure?: {
    /** Time in UTC with milliseconds (RFC 3339). */
    readonly at: string
    readonly detail: string
  }
  /** Settings of the tenant of the workspace, for all of its workspaces. */
  readonly tenant: {
    readonly retention: TenantRetention
  }
  /** All settings one by one, each with the value in force and its source. */
  readonly effective: readonly EffectiveSetting[]
  readonly updated_at: string | null
  /** Settings that the request changes, or would change. */
  readonly changes?: readonly SettingChange[]
  /** True if nothing was changed. */
  readonly dry_run?: boolean
  /** Warnings about a change: data that it has made public. */
  readonly warnings?: readonly {
    readonly pointer: string
    readonly detail: string
  }[]
}

export type WrittenFlow = {
  readonly id: string
  readonly name: string
  readonly state: 'draft' | 'published'
  /** Number of the latest published version. 0: none. */
  readonly latest_version: number
  readonly source: string
  readonly valid: boolean
  readonly diagnostics: readonly Diagnostic[]
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly created_at: string
  /** Time in UTC with milliseconds (RFC 3339). */
  readonly updated_at: string
  /** Diagnostics that do not prevent publishing. */
  readonly warnings: readonly Diagnostic[]
}

export interface Operations {
  readonly me: {
    /** Read your own identity, roles and scopes. */
    get(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Caller>
    /** List your sessions, the latest first. */
    listSessions(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<{
      readonly data: readonly OwnSession[]
    }>
    /** End one of your sessions: its refresh tokens at once, its access tokens within 5 s. */
    endSession(input: {
      /** Id of the session. */
      readonly id: string
    }, options?: CallOptions): Promise<Ended>
    /** List the clients that may act for you, such as MCP hosts, the newest first; at most 100. */
    listConsents(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<{
      readonly data: readonly Consent[]
    }>
    /** Revoke what you have allowed a client: its refresh tokens end at once, its access tokens within 5 s. */
    endConsent(input: {
      /** Id of the consent. */
      readonly id: string
    }, options?: CallOptions): Promise<Ended>
  }
  readonly limits: {
    /** Read your rate limits and size limits. */
    get(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Limits>
  }
  readonly analytics: {
    /** List the metrics: name, unit, what each counts, and the values of its label. */
    metrics(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<{
      readonly data: readonly Metric[]
    }>
    /** Query a metric of the workspace over a range of time. */
    query(input: {
      /** Name of the metric: requests, errors, latency, documents, document_bytes, object_bytes, users, events, streams, deliveries, runs, run_ms, executions, mcp_calls. */
      readonly metric: string
      /** Length of the window up to now, at most 90 days. Format: `90s`, `15m`, `1h`. */
      readonly window?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly from?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly to?: string
      /** Length of a step in whole minutes, of which the range has at most 1000. Steps begin at multiples of it since 1970, in UTC. Default: the shortest of 1m, 2m, 5m, 10m, 15m, 30m, 1h, 2h, 3h, 6h, 12h and 1d that makes no more. Format: `90s`, `15m`, `1h`. */
      readonly step?: string
      /** Grouping of the series: `none` for one series, the label of the metric, or, in queries of tenants, `workspace`. Default: the label, or `none` for a metric without one. */
      readonly group_by?: string
    }, options?: CallOptions): Promise<TimeSeries>
  }
  readonly usage: {
    /** List what workspaces used by the hour, oldest first, with ids that never change. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the tenant. Default: your own tenant; for operators, all tenants. */
      readonly tenant_id?: string
      /** Id of the workspace. Default: all workspaces that you may administer. */
      readonly workspace_id?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly from?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly to?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly UsageRecord[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Query a metric of a tenant over a range of time, for all of its workspaces or by workspace. */
    query(input: {
      /** Name of the metric: requests, errors, latency, documents, document_bytes, object_bytes, users, events, streams, deliveries, runs, run_ms, executions, mcp_calls. */
      readonly metric: string
      /** Length of the window up to now, at most 90 days. Format: `90s`, `15m`, `1h`. */
      readonly window?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly from?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly to?: string
      /** Length of a step in whole minutes, of which the range has at most 1000. Steps begin at multiples of it since 1970, in UTC. Default: the shortest of 1m, 2m, 5m, 10m, 15m, 30m, 1h, 2h, 3h, 6h, 12h and 1d that makes no more. Format: `90s`, `15m`, `1h`. */
      readonly step?: string
      /** Grouping of the series: `none` for one series, the label of the metric, or, in queries of tenants, `workspace`. Default: the label, or `none` for a metric without one. */
      readonly group_by?: string
      /** Id of the tenant. Default: your own tenant; for operators, all tenants. */
      readonly tenant_id?: string
      /** Id of the workspace. Default: all workspaces that you may administer. */
      readonly workspace_id?: string
    }, options?: CallOptions): Promise<TimeSeries>
  }
  readonly status: {
    /** Read the state of the servers behind the platform, as the process that answers sees it. */
    get(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Status>
  }
  readonly tenants: {
    /** Create a tenant. */
    create(input: {
      readonly prefer?: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug: string
    }, options?: CallOptions): Promise<Tenant | Operation>
    /** List tenants; a tenant admin sees only its own. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Tenant[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a tenant. */
    get(input: {
      /** Id of the tenant. */
      readonly id: string
    }, options?: CallOptions): Promise<Tenant>
    /** Update the name or the slug of a tenant; absent members do not change. */
    update(input: {
      /** Id of the tenant. */
      readonly id: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug?: string
    }, options?: CallOptions): Promise<Tenant>
    /** Delete a tenant: suspend it at once, and purge it with all that it has after some days. */
    delete(input: {
      /** Id of the tenant. */
      readonly id: string
      /** Days until the purge, in which the deletion can be undone. 0: the purge begins after 5 s, when every process knows of the deletion, and cannot be undone. Default: 7. What was never in use is purged at once. */
      readonly grace_days?: number
      readonly prefer?: string
    }, options?: CallOptions): Promise<Operation>
    /** List how what a tenant and its workspaces have in other systems, such as buckets, differs from the database. */
    drift(input: {
      /** Id of the tenant. */
      readonly id: string
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Drift[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Suspend a tenant: all its activity stops within 5 s, and no work is lost. */
    suspend(input: {
      /** Id of the tenant. */
      readonly id: string
      /** Reason for the suspension, shown to admins. Callers whose requests are rejected do not see it. */
      readonly reason?: string
    }, options?: CallOptions): Promise<Tenant>
    /** Resume a suspended tenant: its executions and runs continue where they stopped. */
    resume(input: {
      /** Id of the tenant. */
      readonly id: string
    }, options?: CallOptions): Promise<Tenant>
    /** Retry the creation of a tenant that has failed. */
    retry(input: {
      /** Id of the tenant. */
      readonly id: string
      readonly prefer?: string
    }, options?: CallOptions): Promise<Operation>
    /** Restore a tenant that is being deleted, before its purge begins. */
    restore(input: {
      /** Id of the tenant. */
      readonly id: string
    }, options?: CallOptions): Promise<Tenant>
    /** Export a tenant with all of its workspaces at one moment as an archive, which can be downloaded for a day. */
    export(input: {
      /** Id of the tenant. */
      readonly id: string
      readonly prefer?: string
    }, options?: CallOptions): Promise<Operation>
    /** Import the archive of a tenant as a new tenant with all of its workspaces. */
    import(input: {
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug?: string
      readonly prefer?: string
      readonly content: RequestBody
    }, options?: CallOptions): Promise<Operation>
  }
  readonly workspaces: {
    /** Create a workspace with its bucket. */
    create(input: {
      readonly prefer?: string
      /** Id of the tenant. */
      readonly tenant_id?: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug: string
      readonly bucket?: string | null
      /** Environment of the workspace. Tools that apply each saved file of a project at once refuse `production`. */
      readonly environment?: 'development' | 'production'
    }, options?: CallOptions): Promise<Workspace | Operation>
    /** List workspaces. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the tenant. */
      readonly tenant_id?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Workspace[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a workspace. */
    get(input: {
      /** Id of the workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<Workspace>
    /** Update the name, the slug or the environment of a workspace; absent members do not change. */
    update(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug?: string
      /** Environment of the workspace. Tools that apply each saved file of a project at once refuse `production`. */
      readonly environment?: 'development' | 'production'
    }, options?: CallOptions): Promise<Workspace>
    /** Delete a workspace: suspend it at once, and purge it with all that it has after some days. */
    delete(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Days until the purge, in which the deletion can be undone. 0: the purge begins after 5 s, when every process knows of the deletion, and cannot be undone. Default: 7. What was never in use is purged at once. */
      readonly grace_days?: number
      readonly prefer?: string
    }, options?: CallOptions): Promise<Operation>
    /** Suspend a workspace: all its activity stops within 5 s, and no work is lost. */
    suspend(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Reason for the suspension, shown to admins. Callers whose requests are rejected do not see it. */
      readonly reason?: string
    }, options?: CallOptions): Promise<Workspace>
    /** Resume a suspended workspace: its executions and runs continue where they stopped. */
    resume(input: {
      /** Id of the workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<Workspace>
    /** Retry the creation of a workspace that has failed. */
    retry(input: {
      /** Id of the workspace. */
      readonly id: string
      readonly prefer?: string
    }, options?: CallOptions): Promise<Operation>
    /** Export a workspace at one moment as an archive, which can be downloaded for a day. */
    export(input: {
      /** Id of the workspace. */
      readonly id: string
      readonly prefer?: string
    }, options?: CallOptions): Promise<Operation>
    /** Import the archive of a workspace as a new workspace of the tenant. */
    import(input: {
      /** Id of the tenant. */
      readonly id: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug?: string
      /** S3 bucket name. Default: derived from the slug. `null`: no bucket, so no objects. */
      readonly bucket?: string
      /** Environment of the workspace. Tools that apply each saved file of a project at once refuse `production`. */
      readonly environment?: 'development' | 'production'
      readonly prefer?: string
      readonly content: RequestBody
    }, options?: CallOptions): Promise<Operation>
    /** Restore a workspace that is being deleted, before its purge begins. */
    restore(input: {
      /** Id of the workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<Workspace>
  }
  readonly openapi: {
    /** Read the OpenAPI document of a workspace: its declared collections, and its functions and published flows with schemas. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<Readonly<Record<string, unknown>>>
  }
  readonly hosts: {
    /** Create a host name of a workspace; it counts once the DNS record in the response was verified. */
    create(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Host name, such as `api.shop.example`. Letter case and a final dot do not count; other scripts than Latin are stored in their ASCII form. No wildcard, no IP address, no name of the platform. */
      readonly host: string
    }, options?: CallOptions): Promise<Host>
    /** List the host names of a workspace. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Host[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Verify a host name by its proof in DNS; within 5 s, every process serves requests for the name for the workspace alone. */
    verify(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Host name, such as `api.shop.example`. Letter case and a final dot do not count; other scripts than Latin are stored in their ASCII form. No wildcard, no IP address, no name of the platform. */
      readonly host: string
    }, options?: CallOptions): Promise<Host>
    /** Delete a host name; within 5 s, requests for it are no longer served for the workspace. */
    delete(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Host name, such as `api.shop.example`. Letter case and a final dot do not count; other scripts than Latin are stored in their ASCII form. No wildcard, no IP address, no name of the platform. */
      readonly host: string
    }, options?: CallOptions): Promise<DeletedHost>
  }
  readonly operations: {
    /** Read the archive of an export, or its rest from a byte on. */
    getArchive(input: {
      /** Id of the tenant. */
      readonly id: string
      /** Id of the export. */
      readonly operation: string
      /** Range `bytes=N-`, for the rest of a download that was cut off; others are ignored. */
      readonly range?: string
      /** ETag of the archive that the range belongs to; the whole archive is sent if it has another one. */
      readonly if_range?: string
    }, options?: CallOptions): Promise<Response>
    /** Read an operation and its steps; admins of a workspace read those about what is inside it, such as users and indexes. */
    get(input: {
      /** Id of the operation. */
      readonly id: string
    }, options?: CallOptions): Promise<Operation>
    /** List operations. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Operation[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
  }
  readonly dataTokens: {
    /** Create a token for the data of one workspace, which acts as you and ends after 10 minutes. */
    create(input: {
      /** Id of the workspace. */
      readonly id: string
      /** Scopes of the token, all of which you may have. Possible scopes: analytics:read, collections:read, collections:write, events:read, events:write, flows:read, flows:run, functions:read, functions:write, objects:read, objects:write, payloads:read. */
      readonly scopes: readonly string[]
    }, options?: CallOptions): Promise<DataToken>
  }
  readonly apiKeys: {
    /** Create an API key; only this response contains the key itself. */
    create(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      readonly kind: 'anon' | 'service' | 'storage'
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name: string
      /** Scopes that restrict the key; empty: all rights of its kind. Possible scopes: analytics:read, collections:read, collections:write, events:read, events:write, flows:approve, flows:read, flows:run, functions:read, functions:write, objects:read, objects:write, payloads:read. */
      readonly scopes?: readonly string[]
      /** Actions of a storage key, which this kind requires: `read`; `write`, which includes deletion; `list`; `admin` for all of them. */
      readonly actions?: readonly ('read' | 'write' | 'list' | 'admin')[]
      /** Prefixes of the objects that a storage key reaches, such as `in/`. Absent: the whole bucket. */
      readonly prefixes?: readonly string[]
      /** Maximum number of requests per minute. `null`: the general limit of keys of its kind. */
      readonly rate_limit?: number | null
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly expires_at?: string
    }, options?: CallOptions): Promise<ApiKeyWithSecret>
    /** List API keys in masked form. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly workspace_id?: string
      /** Status of the key. `expiring`: replaced by another key, and valid until `expires_at`. */
      readonly status?: 'active' | 'expiring' | 'disabled' | 'expired' | 'revoked'
    }, options?: CallOptions): Promise<{
      readonly data: readonly ApiKey[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an API key in masked form. */
    get(input: {
      /** Id of the API key. */
      readonly id: string
    }, options?: CallOptions): Promise<ApiKey>
    /** Update an API key: name, status, scopes, rate limit or expiry; absent members do not change. */
    update(input: {
      /** Id of the API key. */
      readonly id: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Status to set; `active` enables a disabled key. */
      readonly status?: 'active' | 'disabled'
      readonly expires_at?: string | null
      /** Maximum number of requests per minute. `null`: the general limit of keys of its kind. */
      readonly rate_limit?: number | null
      /** Scopes that restrict the key; empty: all rights of its kind. Possible scopes: analytics:read, collections:read, collections:write, events:read, events:write, flows:approve, flows:read, flows:run, functions:read, functions:write, objects:read, objects:write, payloads:read. */
      readonly scopes?: readonly string[]
    }, options?: CallOptions): Promise<ApiKey>
    /** Revoke an API key; this node rejects it at once, all nodes within 5 s. */
    revoke(input: {
      /** Id of the API key. */
      readonly id: string
    }, options?: CallOptions): Promise<ApiKey>
    /** Rotate an API key: a new key gets the same rights, and the old one expires after a grace period. */
    rotate(input: {
      /** Id of the API key. */
      readonly id: string
      /** Seconds for which the old key stays valid; 0: it expires at once. Default: 86400. */
      readonly grace_seconds?: number
      /** Expiry of the new key. `null`: never. Default: the lifetime of the old key, counted from now. */
      readonly expires_at?: string | null
    }, options?: CallOptions): Promise<ApiKeyWithSecret>
  }
  readonly accounts: {
    /** Invite a person by mail, or with a link that only this response contains. */
    create(input: {
      /** Id of the tenant. */
      readonly tenant_id?: string
      /** Id of the workspace. */
      readonly workspace_id?: string
      readonly role: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service'
      readonly email: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Groups that approvals may name as `group:<name>`. */
      readonly groups?: readonly string[]
      /** True if the link is mailed to the address of the account and not returned, so that its use verifies the address. Default: `false`. A repetition with the same Idempotency-Key sends no mail; if no mail has arrived, request a new link with another key: `POST /v1/accounts/{id}/invite`, or `/reset` for an accepted account. */
      readonly mail?: boolean
    }, options?: CallOptions): Promise<AccountWithInvitation>
    /** List accounts. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the tenant. */
      readonly tenant_id?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Account[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an account. */
    get(input: {
      /** Id of the account. */
      readonly id: string
    }, options?: CallOptions): Promise<Account>
    /** Update an account: name, groups, status, or the right to see payloads; an account that is disabled or loses the right is signed out everywhere within 5 s. */
    update(input: {
      /** Id of the account. */
      readonly id: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Groups that approvals may name as `group:<name>`. */
      readonly groups?: readonly string[]
      /** True if the account sees payloads of executions and runs that others have started; each look is in the audit log. A new link to set a password ends it. */
      readonly sees_payloads?: boolean
      readonly disabled?: boolean
    }, options?: CallOptions): Promise<Account>
    /** Delete an account; its tokens become invalid within 5 s. */
    delete(input: {
      /** Id of the account. */
      readonly id: string
    }, options?: CallOptions): Promise<Deleted>
    /** Renew the pending invitation of an account; the earlier link becomes invalid. */
    invite(input: {
      /** Id of the account. */
      readonly id: string
      /** True if the link is mailed to the address of the account and not returned, so that its use verifies the address. Default: `false`. A repetition with the same Idempotency-Key sends no mail; if no mail has arrived, request a new link with another key: `POST /v1/accounts/{id}/invite`, or `/reset` for an accepted account. */
      readonly mail?: boolean
    }, options?: CallOptions): Promise<AccountWithInvitation>
    /** Reset an accepted account: its password, sessions and tokens become invalid; the link for a new password is mailed, or only in this response. */
    reset(input: {
      /** Id of the account. */
      readonly id: string
      /** True if the link is mailed to the address of the account and not returned, so that its use verifies the address. Default: `false`. A repetition with the same Idempotency-Key sends no mail; if no mail has arrived, request a new link with another key: `POST /v1/accounts/{id}/invite`, or `/reset` for an accepted account. */
      readonly mail?: boolean
    }, options?: CallOptions): Promise<AccountWithReset>
    /** Confirm that an account belongs to its person after it was created, reset or regrouped: it then decides approvals requested before, and those of executions that the responsible admin started, but not of executions that you started. */
    confirm(input: {
      /** Id of the account. */
      readonly id: string
    }, options?: CallOptions): Promise<Account>
    /** Remove the second factor and all passkeys of an account of a lower role, and sign it out everywhere. */
    resetFactors(input: {
      /** Id of the account. */
      readonly id: string
    }, options?: CallOptions): Promise<Account>
    /** List the sessions of an account, the latest first. */
    listSessions(input: {
      /** Id of the account. */
      readonly id: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Session[]
    }>
    /** End a session of an account: its refresh tokens at once, its access tokens within 5 s. */
    endSession(input: {
      /** Id of the account. */
      readonly id: string
      /** Id of the session. */
      readonly session_id: string
    }, options?: CallOptions): Promise<Ended>
  }
  readonly users: {
    /** List the sessions of a user, the latest first. */
    listSessions(input: {
      /** Id of the user. */
      readonly id: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Session[]
    }>
    /** End a session of a user: its refresh tokens at once, its access tokens within 5 s. */
    endSession(input: {
      /** Id of the user. */
      readonly id: string
      /** Id of the session. */
      readonly session_id: string
    }, options?: CallOptions): Promise<Ended>
    /** Invite a user by mail; only this response may also contain the invitation link. */
    create(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      readonly email: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Claims for access rules, copied into tokens as `claims`: at most 8192 bytes of JSON, 5 levels. The user cannot change them. */
      readonly claims?: Readonly<Record<string, unknown>>
      /** True if the invitation is mailed and not returned, so that its use proves who reads the mailbox. Default: `false`: an admin who received it in the response counts as the person of the user (`fourEyes`). */
      readonly mail?: boolean
    }, options?: CallOptions): Promise<UserWithInvitation>
    /** List users. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly workspace_id?: string
      /** Complete e-mail address of the user. */
      readonly email?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly User[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Export all users of a workspace as NDJSON, without passwords. */
    export(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
    }, options?: CallOptions): Promise<Response>
    /** Read a user. */
    get(input: {
      /** Id of the user. */
      readonly id: string
    }, options?: CallOptions): Promise<User>
    /** Update a user: name, status or claims; a disabled user is signed out everywhere within 5 s. */
    update(input: {
      /** Id of the user. */
      readonly id: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      /** Claims for access rules, copied into tokens as `claims`: at most 8192 bytes of JSON, 5 levels. The user cannot change them. */
      readonly claims?: Readonly<Record<string, unknown>>
      readonly disabled?: boolean
    }, options?: CallOptions): Promise<User>
    /** Delete a user, with `data=delete` also the documents and objects of the user, with `data=anonymize` what leads from them to the user; tokens become invalid within 5 s. */
    delete(input: {
      /** Id of the user. */
      readonly id: string
      /** Fate of the documents that the user owns, and of the objects that the user has created or that are below the own prefixes of the user: `keep`, `delete`, or `anonymize`, which gives them and the records of work a pseudonym that is recorded nowhere else. Default: `keep`. */
      readonly data?: 'keep' | 'delete' | 'anonymize'
      /** True if nothing is changed: the reply counts what `data=delete` would delete, or `data=anonymize` change. */
      readonly dry_run?: boolean
      readonly prefer?: string
    }, options?: CallOptions): Promise<Deleted | UserRemovalPreview | Operation>
    /** Renew the pending invitation of a user; the earlier link becomes invalid. */
    invite(input: {
      /** Id of the user. */
      readonly id: string
      /** True if the invitation is mailed and not returned, so that its use proves who reads the mailbox. Default: `false`: an admin who received it in the response counts as the person of the user (`fourEyes`). */
      readonly mail?: boolean
    }, options?: CallOptions): Promise<UserWithInvitation>
    /** Sign a user out everywhere: sessions end at once, access tokens within 5 s. */
    signOut(input: {
      /** Id of the user. */
      readonly id: string
    }, options?: CallOptions): Promise<User>
    /** Remove the second factor and all passkeys of a user, and sign the user out everywhere. */
    resetFactors(input: {
      /** Id of the user. */
      readonly id: string
    }, options?: CallOptions): Promise<User>
    /** Export what the workspace knows of a user as NDJSON; a user exports its own data only. */
    exportData(input: {
      /** Id of the user. */
      readonly id: string
    }, options?: CallOptions): Promise<Response>
  }
  readonly signInPolicy: {
    /** Read whether administrators of a tenant, or operators, need a second factor. */
    get(input?: {
      /** Id of the tenant. Default: the tenant of a tenant admin; for an operator, the accounts of operators. */
      readonly tenant_id?: string
    }, options?: CallOptions): Promise<SignInPolicy>
    /** Require a second factor of all administrators of a tenant, or of operators; takes effect within 5 s, also for tokens issued before. */
    set(input: {
      /** Id of the tenant. Default: the tenant of a tenant admin; for an operator, the accounts of operators. */
      readonly tenant_id?: string
      /** True if an account may do nothing with a token that it got without a second factor. Machines have none, and are not affected. */
      readonly require_mfa: boolean
    }, options?: CallOptions): Promise<SignInPolicy>
  }
  readonly oauthClients: {
    /** Create an OAuth client; only this response contains the secret of a machine client. */
    create(input: {
      /** Id of the tenant. */
      readonly tenant_id?: string
      /** Id of the workspace. */
      readonly workspace_id?: string
      readonly kind: 'machine' | 'public'
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name: string
      readonly role?: 'operator' | 'tenant_admin' | 'workspace_admin' | 'developer' | 'viewer' | 'service'
      /** Subjects that sign in at a public client: accounts, or the users of its workspace. Default: `accounts`. */
      readonly audience?: 'accounts' | 'users'
      /** Redirect URIs: `https`, `http` at a loopback address with any port, or the scheme of an application, such as `cursor://host/path`. A machine client has no redirect URIs. */
      readonly redirect_uris?: readonly string[]
      /** True if the machine client sees payloads of executions and runs that others have started. It is set when the client is made, by a caller who sees them. */
      readonly sees_payloads?: boolean
    }, options?: CallOptions): Promise<OAuthClientWithSecret>
    /** List OAuth clients. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the tenant. */
      readonly tenant_id?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly OAuthClient[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an OAuth client. */
    get(input: {
      /** Id of the client. */
      readonly id: string
    }, options?: CallOptions): Promise<OAuthClient>
    /** Delete an OAuth client; its tokens become invalid within 5 s. */
    delete(input: {
      /** Id of the client. */
      readonly id: string
    }, options?: CallOptions): Promise<DeletedClient>
    /** Rotate the secret of a machine client; the previous one becomes invalid within 5 s. */
    rotateSecret(input: {
      /** Id of the client. */
      readonly id: string
    }, options?: CallOptions): Promise<OAuthClientWithSecret>
  }
  readonly issuer: {
    /** Rotate the signing key of the issuer; older keys verify until their tokens expire, unless they are revoked. */
    rotateKeys(input?: {
      /** True if older keys are revoked: every token of the issuer becomes invalid within 5 s. Default: `false`. */
      readonly revoke?: boolean
    }, options?: CallOptions): Promise<SigningKey>
  }
  readonly collections: {
    /** Explain which access rule decides on a document for an anon key or a user. */
    explain(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Caller: `"anon"`, or a user as `{"id", "email", "claims"}`. The user need not exist. */
      readonly as: 'anon' | {
        readonly id: string
        readonly email?: string
        readonly claims?: Readonly<Record<string, unknown>>
      }
      readonly op: 'read' | 'create' | 'update' | 'delete'
      /** Id of the document. */
      readonly id?: string
      /** Document to decide on: for `create` the new document, for `update` the result with all of its fields. */
      readonly document?: Readonly<Record<string, unknown>>
    }, options?: CallOptions): Promise<AccessExplanation>
    /** Drop a collection: delete its documents, its declaration and its indexes. */
    drop(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Name of the collection once more, since this cannot be undone. */
      readonly confirm: string
    }, options?: CallOptions): Promise<DroppedCollection>
    /** Truncate a collection: delete all of its documents, and keep its declaration. */
    truncate(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Name of the collection once more, since this cannot be undone. */
      readonly confirm: string
    }, options?: CallOptions): Promise<TruncatedCollection>
    /** Rename a collection; references and lookups of other declarations follow. */
    rename(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly to: string
    }, options?: CallOptions): Promise<RenamedCollection>
    /** List collections by name: those that are declared, and those that have documents. */
    listCollections(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Collection[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Create a document, or with `upsert` update the one that has the same values in unique fields. */
    create(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Fields that are declared unique together, such as `email`: a document with the same values gets the given fields, and keeps the others. */
      readonly upsert?: string
      /** Fields of the document. */
      readonly document: Readonly<Record<string, unknown>>
    }, options?: CallOptions): Promise<Document>
    /** List documents page by page, filtered and sorted; by default, oldest first. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** True if `page.position` is returned, from which a subscription to the collection continues without missing a change. */
      readonly page_position?: boolean
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Fields to return, such as `a,b.c`; `id` is always returned. `customer.name` is a field of the document of a reference, returned in `_expand`. */
      readonly select?: string
      /** Sort keys, such as `a.desc,b.asc.nullsfirst`; with a search also `_score.desc`, with `geo` also `_distance(52.52,13.405)`. */
      readonly order?: string
      /** Documents at the other end of references to return in `_expand`, such as `customer(name),comments(body;order=_created_at.desc;size=5)`, or their number: `comments(count)`. */
      readonly expand?: string
      readonly filters?: Readonly<Record<string, string | readonly string[]>>
      /** Kind of count to return as `page.total`, also requested by `Prefer: count=…`; `estimated` is fast for many documents. */
      readonly count?: 'exact' | 'estimated'
      readonly prefer?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly SelectedDocument[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
        /** Total number of items, if `count` requests it. */
        readonly total?: number
        /** Position from which changes of the collection continue, if it is requested: `last_event_id` of a subscription. */
        readonly position?: string
        /** True if more documents match than a search orders by their score. */
        readonly approximate?: true
      }
    }>
    /** Read a document, or some of its fields. */
    get(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the document. */
      readonly id: string
      /** Fields to return, such as `a,b.c`; `id` is always returned. `customer.name` is a field of the document of a reference, returned in `_expand`. */
      readonly select?: string
      /** Documents at the other end of references to return in `_expand`, such as `customer(name),comments(body;order=_created_at.desc;size=5)`, or their number: `comments(count)`. */
      readonly expand?: string
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<SelectedDocument>
    /** Set the given fields of a document; other fields do not change; with `If-None-Match: *`, create it under this id. */
    update(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the document. */
      readonly id: string
      /** True if fields that are not given are removed. Default: `false`. */
      readonly replace?: boolean
      /** Fields to remove, such as `a,b`. */
      readonly unset?: string
      readonly if_match?: string
      /** Tags that the document must not have, or `*` if it must not exist: PUT creates it under this id. */
      readonly if_none_match?: string
      /** Fields of the document. */
      readonly document: Readonly<Record<string, unknown>>
    }, options?: CallOptions): Promise<Document>
    /** Merge a patch into a document (RFC 7396): members are replaced, and `null` removes a member, at any depth; or apply operators. */
    patch(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the document. */
      readonly id: string
      readonly if_match?: string
      /** Tags that the document must not have, or `*` if it must not exist: PUT creates it under this id. */
      readonly if_none_match?: string
      /** Fields of the document. */
      readonly document: Readonly<Record<string, unknown>>
    }, options?: CallOptions): Promise<Document>
    /** Delete a document. */
    delete(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the document. */
      readonly id: string
      readonly if_match?: string
      /** Tags that the document must not have, or `*` if it must not exist: PUT creates it under this id. */
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<Deleted>
    /** Query documents with a filter in JSON. */
    query(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      readonly prefer?: string
      /** Filter, such as `{"status": "open", "age": {"gte": 18}, "$or": [{…}, {…}], "$not": {…}}`. Through references: `{"customer.plan": "pro", "comments": {"some": {…}}}`. */
      readonly filter?: Readonly<Record<string, unknown>>
      /** Sort keys: `{"age": -1}`, or `["age.desc.nullslast", "n"]` as in `order`. */
      readonly sort?: Readonly<Record<string, 1 | -1>> | readonly string[]
      /** Maximum number of documents. Default: 50. */
      readonly limit?: number
      readonly select?: string | readonly string[]
      /** Documents at the other end of references to return in `_expand`, such as `customer(name),comments(body;order=_created_at.desc;size=5)`, or their number: `comments(count)`. As an object: `{"comments": {"select": ["body"], "filter": {"visible": true}, "sort": {"n": -1}, "limit": 5}}`. */
      readonly expand?: string | Readonly<Record<string, unknown>>
      /** `page.next` of the previous page. */
      readonly after?: string
      /** Kind of count to return as `page.total`, also requested by `Prefer: count=…`; `estimated` is fast for many documents. */
      readonly count?: 'exact' | 'estimated'
      /** True if `page.position` is returned, from which a subscription to the collection continues without missing a change. */
      readonly position?: boolean
    }, options?: CallOptions): Promise<{
      readonly data: readonly SelectedDocument[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
        /** Total number of items, if `count` requests it. */
        readonly total?: number
        /** Position from which changes of the collection continue, if it is requested: `last_event_id` of a subscription. */
        readonly position?: string
        /** True if more documents match than a search orders by their score. */
        readonly approximate?: true
      }
    }>
    /** Count and add up documents by groups, with parameters in the URL. */
    listGroups(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Groups and measures, such as `status,day:_created_at.bucket(day,Europe/Berlin),n:count(),total:amount.sum()`. */
      readonly select: string
      /** Conditions on measures, such as `total.gt.100,n.gte.2`. */
      readonly having?: string
      /** Sort keys over names of the answer, such as `total.desc,status`. */
      readonly order?: string
      readonly filters?: Readonly<Record<string, string | readonly string[]>>
      /** Maximum number of groups. Default: 1000. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly AggregateGroup[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    } | AggregateGroup>
    /** Count and add up documents by groups. */
    aggregate(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Groups by their names in the answer: `{"city": "address.city", "day": {"bucket": "_created_at", "by": "day", "tz": "Europe/Berlin"}}`, or a list of fields. */
      readonly group?: readonly string[] | Readonly<Record<string, string | {
        /** Path of a field, such as `status` or `address.city`. */
        readonly bucket: string
        readonly by: string
        readonly tz?: string
      }>>
      /** Measures by their names in the answer: `{"n": {"count": true}, "total": {"sum": "amount"}}`. There are count, count_distinct, sum, avg, min, max. */
      readonly measures?: Readonly<Record<string, Readonly<Record<string, string | true>>>>
      /** Filter of the documents, as in a query: `{"status": "paid"}`. */
      readonly filter?: Readonly<Record<string, unknown>>
      /** Filter of the groups by their measures: `{"total": {"gt": 100}}`. */
      readonly having?: Readonly<Record<string, unknown>>
      /** Sort keys over names of the answer: `{"total": -1}`, or `["total.desc.nullslast", "day"]`. */
      readonly sort?: Readonly<Record<string, 1 | -1>> | readonly string[]
      /** Maximum number of groups. Default: 1000. */
      readonly limit?: number
      /** `page.next` of the previous page. */
      readonly after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly AggregateGroup[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    } | AggregateGroup>
    /** Import documents from NDJSON or CSV; by default, documents whose id exists are left unchanged. */
    import(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Action if a line fails. `continue`: import the other lines; `stop`: end the import and return the error. Default: `continue`. */
      readonly on_error?: 'continue' | 'stop'
      /** Action on a document that exists. `create`: leave it; `upsert`: set the fields of the line; `replace`: set them and remove all others. Default: `create`. */
      readonly mode?: 'create' | 'upsert' | 'replace'
      /** Fields that are declared unique, such as `email`, by which `upsert` finds the document. Default: its id. */
      readonly on?: string
      /** True if each chunk is stored and taken back, to see which lines would fail. Default: `false`. */
      readonly dry_run?: boolean
      /** True if there are no change events, so that no trigger starts; only for service keys. Default: `false`. */
      readonly quiet?: boolean
      /** Keeping of `_version`, `_created_at`, `_updated_at` and `_owner` of each line; only for service keys, in mode `create` with `quiet`. */
      readonly keep?: 'system'
      /** Names of the columns of CSV that has no header, such as `name,address.city`. */
      readonly csv_header?: string
      /** Character between two cells of CSV. Default: a comma. */
      readonly csv_delimiter?: ',' | ';' | '|' | 'tab'
      /** Text of a cell of CSV without quotes that stands for `null`, such as `NULL`. Default: none; `null` is written as an empty cell, and lost. */
      readonly csv_null?: string
      /** Reading of cells of CSV whose field has no declared type. `text`: each is a text; `json`: one that is valid JSON, such as `42`, is that value. Default: `text`. */
      readonly csv_cells?: 'text' | 'json'
      /** Content coding: only `identity`; compressed content is refused. */
      readonly content_encoding?: string
      readonly content: RequestBody
    }, options?: CallOptions): Promise<ImportResult>
    /** Export all documents as NDJSON or CSV, filtered and sorted; by default, in the order of ids. */
    export(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Fields to return, such as `a,b.c`; `id` is always returned. `customer.name` is a field of the document of a reference, returned in `_expand`. */
      readonly select?: string
      /** Sort keys, such as `a.desc,b.asc.nullsfirst`; with a search also `_score.desc`, with `geo` also `_distance(52.52,13.405)`. */
      readonly order?: string
      readonly filters?: Readonly<Record<string, string | readonly string[]>>
      /** Character between two cells of CSV. Default: a comma. */
      readonly csv_delimiter?: ',' | ';' | '|' | 'tab'
      /** Text of a cell of CSV without quotes that stands for `null`, such as `NULL`. Default: none; `null` is written as an empty cell, and lost. */
      readonly csv_null?: string
      /** Reading of cells of CSV whose field has no declared type. `text`: each is a text; `json`: one that is valid JSON, such as `42`, is that value. Default: `text`. */
      readonly csv_cells?: 'text' | 'json'
      /** Handling of a text of CSV that a spreadsheet would take for a formula. `escape`: it gets a quote before it, and is not read back as it was. Default: none. */
      readonly csv_formulas?: 'escape'
    }, options?: CallOptions): Promise<Response>
    /** Subscribe to the documents that a list with these filters returns, as server-sent events. */
    subscribe(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Fields to return, such as `a,b.c`; `id` is always returned. `customer.name` is a field of the document of a reference, returned in `_expand`. */
      readonly select?: string
      readonly filters?: Readonly<Record<string, string | readonly string[]>>
      /** Position to continue after: `page.position` of a list, or the last `id`. */
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
    /** Write several documents of a collection in one request; by default, all or none. */
    batch(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** True if either all changes are made or none; `false`: each change on its own. Default: `true`. */
      readonly atomic?: boolean
      readonly ops: readonly BatchOperation[]
    }, options?: CallOptions): Promise<BatchResults>
    /** Update all documents that match a filter, in batches; the reply is the bulk change, which a worker makes. */
    updateMany(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      readonly prefer?: string
      /** Filter of the documents to change, as in a query: `{"status": "open", "age": {"gte": 18}}`. An empty one needs `all`. */
      readonly filter: Readonly<Record<string, unknown>>
      /** True if an empty filter means all documents. Default: `false`, which refuses one. */
      readonly all?: boolean
      /** Number of documents that may match at most. If more match, nothing is changed; if others come to match meanwhile, it ends with `too_many_matches` before it would exceed the number. */
      readonly max_documents?: number
      /** True if nothing is changed: the reply says how many documents match. Default: `false`. */
      readonly dry_run?: boolean
      /** Fields of the document. */
      readonly data?: Readonly<Record<string, unknown>>
      /** Values to set, by path, such as `{"shop.city": "Rome"}`. Objects on the way are created. */
      readonly set?: Readonly<Record<string, unknown>>
      /** Paths to remove, such as `["shop.aisle"]`. */
      readonly unset?: readonly string[]
      /** Numbers to add, by path, such as `{"seen": 1}`; texts such as `"0.10"` for fields of the formats `decimal` and `int64`. */
      readonly inc?: Readonly<Record<string, number | string>>
      /** Elements to append to arrays, by path: one value, or several as `{"each": [1, 2]}`. */
      readonly push?: Readonly<Record<string, unknown>>
      /** Elements to remove from arrays, by path: one value, or several as `{"each": [1, 2]}`. */
      readonly pull?: Readonly<Record<string, unknown>>
      /** Numbers or texts, by path, that replace greater ones. */
      readonly min?: Readonly<Record<string, number | string>>
      /** Numbers or texts, by path, that replace smaller ones. */
      readonly max?: Readonly<Record<string, number | string>>
      /** Paths that get the time of the change, as a text of RFC 3339. */
      readonly now?: readonly string[]
    }, options?: CallOptions): Promise<BulkChange | BulkChangePreview>
    /** Delete all documents that match a filter, in batches; the reply is the bulk change, which a worker makes. */
    deleteMany(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      readonly prefer?: string
      /** Filter of the documents to change, as in a query: `{"status": "open", "age": {"gte": 18}}`. An empty one needs `all`. */
      readonly filter: Readonly<Record<string, unknown>>
      /** True if an empty filter means all documents. Default: `false`, which refuses one. */
      readonly all?: boolean
      /** Number of documents that may match at most. If more match, nothing is changed; if others come to match meanwhile, it ends with `too_many_matches` before it would exceed the number. */
      readonly max_documents?: number
      /** True if nothing is changed: the reply says how many documents match. Default: `false`. */
      readonly dry_run?: boolean
    }, options?: CallOptions): Promise<BulkChange | BulkChangePreview>
  }
  readonly schemas: {
    /** Preview a schema for the documents of a collection; nothing is declared. */
    infer(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly collection: string
    }, options?: CallOptions): Promise<InferredSchema>
    /** Export the declarations of a workspace as they are requested. */
    export(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
    }, options?: CallOptions): Promise<SchemaExport>
    /** Preview the changes that a set of declarations makes, with their effects. */
    plan(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Declarations of collections. Members that one does not name are kept; collections that are not in the list stay as they are. */
      readonly schemas: readonly ({
        /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
        readonly collection: string
        readonly store: 'relational' | 'document'
        /** JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`. */
        readonly schema: Readonly<Record<string, unknown>>
        /** Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch. */
        readonly mode?: 'off' | 'warn' | 'enforce'
        readonly access?: CollectionAccess
        /** Indexes on declared scalar fields, in the order of comparison: `[{"fields": ["status", "score"]}]`. */
        readonly indexes?: readonly {
          readonly fields: readonly string[]
        }[]
        /** Declared scalar fields whose values must be unique: `[["email"]]`, or only among the documents that meet a condition: `[{"fields": ["slug"], "where": {"state": "published"}}]`. `null` and missing values never conflict. */
        readonly unique?: readonly (readonly string[] | {
          readonly fields: readonly string[]
          /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
          readonly where?: Readonly<Record<string, unknown>>
        })[]
        /** Declared texts that a list finds by similarity, also with typos: `title=near.mlik`. */
        readonly trigram?: readonly string[]
        /** Declared arrays with an index of their elements, which serves `cs` and `ov`: `tags=cs.{a,b}`. */
        readonly arrays?: readonly string[]
        readonly geo?: readonly string[] | null
        readonly search?: {
          /** Declared texts, each with its weight in the score: `A` counts most, `D` least. */
          readonly fields: Readonly<Record<string, 'A' | 'B' | 'C' | 'D'>>
          /** Language of the texts; `simple`: words are compared as they are written. */
          readonly language: 'simple' | 'arabic' | 'armenian' | 'basque' | 'catalan' | 'danish' | 'dutch' | 'english' | 'estonian' | 'finnish' | 'french' | 'german' | 'greek' | 'hindi' | 'hungarian' | 'indonesian' | 'irish' | 'italian' | 'lithuanian' | 'nepali' | 'norwegian' | 'portuguese' | 'romanian' | 'russian' | 'serbian' | 'spanish' | 'swedish' | 'tamil' | 'turkish' | 'yiddish'
        } | null
        /** Fields that hold the id of a document of a collection that is declared in the same workspace: `[{"field": "customer_id", "collection": "customers", "inverse": "orders"}]`. */
        readonly references?: readonly {
          /** Declared field of type string with the format `uuid`. */
          readonly field: string
          /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
          readonly collection: string
          /** Name of the other document in `expand`. Default: the field without `_id`. */
          readonly as?: string
          /** Name, in `expand` of the other collection, of the documents that refer to one of it. */
          readonly inverse?: string
          /** Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`. `none`: they keep an id that no document has; the only one if either collection is in MongoDB. */
          readonly on_delete?: 'restrict' | 'cascade' | 'set_null' | 'none'
        }[]
        /** Conditions that each document must meet: `[{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}}]`. `null` and missing values break none. */
        readonly checks?: readonly {
          /** Name of the check in problems. */
          readonly name: string
          /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
          readonly check: Readonly<Record<string, unknown>>
          /** Sentence in the problem of a document that breaks the check. */
          readonly message?: string
        }[]
        /** Ranges that do not overlap: `[{"fields": ["court_id"], "range": ["starts_at", "ends_at"]}]`. A document without one of these values, or that does not meet `where`, excludes none. */
        readonly exclude?: readonly {
          /** Declared scalar fields. Only documents with equal values in all of them exclude each other. */
          readonly fields: readonly string[]
          /** Fields with the start of the range, and with its end, which does not belong to it. Both are declared with one type: `integer`, `number`, or a string with the format `date-time`, `date`, `decimal` or `int64`. */
          readonly range: readonly string[]
          /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
          readonly where?: Readonly<Record<string, unknown>>
        }[]
        readonly ttl?: {
          /** Declared field of type string with the format `date-time`, or `_created_at`. */
          readonly field: string
          /** Time from the value of the field until the document expires, from 1s to 36500d. Default: none. Format: `90s`, `15m`, `1h`. */
          readonly after?: string
        } | null
        /** Former names of fields, by their new names: `{"label": "title"}`. Documents have the new names at once, in the same version. Those that are renamed already are left out. */
        readonly renamed_from?: Readonly<Record<string, string>>
        /** Values of declared fields for documents that lack them: `{"status": "open"}`. They keep their versions, and no change events are published. */
        readonly backfill?: Readonly<Record<string, unknown>>
      })[]
    }, options?: CallOptions): Promise<SchemaPlan>
    /** Update collections by a set of declarations, as planned. */
    apply(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Declarations of collections. Members that one does not name are kept; collections that are not in the list stay as they are. */
      readonly schemas: readonly ({
        /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
        readonly collection: string
        readonly store: 'relational' | 'document'
        /** JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`. */
        readonly schema: Readonly<Record<string, unknown>>
        /** Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch. */
        readonly mode?: 'off' | 'warn' | 'enforce'
        readonly access?: CollectionAccess
        /** Indexes on declared scalar fields, in the order of comparison: `[{"fields": ["status", "score"]}]`. */
        readonly indexes?: readonly {
          readonly fields: readonly string[]
        }[]
        /** Declared scalar fields whose values must be unique: `[["email"]]`, or only among the documents that meet a condition: `[{"fields": ["slug"], "where": {"state": "published"}}]`. `null` and missing values never conflict. */
        readonly unique?: readonly (readonly string[] | {
          readonly fields: readonly string[]
          /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
          readonly where?: Readonly<Record<string, unknown>>
        })[]
        /** Declared texts that a list finds by similarity, also with typos: `title=near.mlik`. */
        readonly trigram?: readonly string[]
        /** Declared arrays with an index of their elements, which serves `cs` and `ov`: `tags=cs.{a,b}`. */
        readonly arrays?: readonly string[]
        readonly geo?: readonly string[] | null
        readonly search?: {
          /** Declared texts, each with its weight in the score: `A` counts most, `D` least. */
          readonly fields: Readonly<Record<string, 'A' | 'B' | 'C' | 'D'>>
          /** Language of the texts; `simple`: words are compared as they are written. */
          readonly language: 'simple' | 'arabic' | 'armenian' | 'basque' | 'catalan' | 'danish' | 'dutch' | 'english' | 'estonian' | 'finnish' | 'french' | 'german' | 'greek' | 'hindi' | 'hungarian' | 'indonesian' | 'irish' | 'italian' | 'lithuanian' | 'nepali' | 'norwegian' | 'portuguese' | 'romanian' | 'russian' | 'serbian' | 'spanish' | 'swedish' | 'tamil' | 'turkish' | 'yiddish'
        } | null
        /** Fields that hold the id of a document of a collection that is declared in the same workspace: `[{"field": "customer_id", "collection": "customers", "inverse": "orders"}]`. */
        readonly references?: readonly {
          /** Declared field of type string with the format `uuid`. */
          readonly field: string
          /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
          readonly collection: string
          /** Name of the other document in `expand`. Default: the field without `_id`. */
          readonly as?: string
          /** Name, in `expand` of the other collection, of the documents that refer to one of it. */
          readonly inverse?: string
          /** Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`. `none`: they keep an id that no document has; the only one if either collection is in MongoDB. */
          readonly on_delete?: 'restrict' | 'cascade' | 'set_null' | 'none'
        }[]
        /** Conditions that each document must meet: `[{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}}]`. `null` and missing values break none. */
        readonly checks?: readonly {
          /** Name of the check in problems. */
          readonly name: string
          /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
          readonly check: Readonly<Record<string, unknown>>
          /** Sentence in the problem of a document that breaks the check. */
          readonly message?: string
        }[]
        /** Ranges that do not overlap: `[{"fields": ["court_id"], "range": ["starts_at", "ends_at"]}]`. A document without one of these values, or that does not meet `where`, excludes none. */
        readonly exclude?: readonly {
          /** Declared scalar fields. Only documents with equal values in all of them exclude each other. */
          readonly fields: readonly string[]
          /** Fields with the start of the range, and with its end, which does not belong to it. Both are declared with one type: `integer`, `number`, or a string with the format `date-time`, `date`, `decimal` or `int64`. */
          readonly range: readonly string[]
          /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
          readonly where?: Readonly<Record<string, unknown>>
        }[]
        readonly ttl?: {
          /** Declared field of type string with the format `date-time`, or `_created_at`. */
          readonly field: string
          /** Time from the value of the field until the document expires, from 1s to 36500d. Default: none. Format: `90s`, `15m`, `1h`. */
          readonly after?: string
        } | null
        /** Former names of fields, by their new names: `{"label": "title"}`. Documents have the new names at once, in the same version. Those that are renamed already are left out. */
        readonly renamed_from?: Readonly<Record<string, string>>
        /** Values of declared fields for documents that lack them: `{"status": "open"}`. They keep their versions, and no change events are published. */
        readonly backfill?: Readonly<Record<string, unknown>>
      })[]
      /** Fingerprint of the plan of these declarations. If anything has changed since, nothing is done. */
      readonly fingerprint: string
    }, options?: CallOptions): Promise<AppliedSchemas>
    /** Declare a collection, which may have documents. */
    create(input: {
      readonly prefer?: string
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly collection: string
      readonly store: 'relational' | 'document'
      /** JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`. */
      readonly schema: Readonly<Record<string, unknown>>
      /** Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch. */
      readonly mode?: 'off' | 'warn' | 'enforce'
      readonly access?: CollectionAccess
      /** Indexes on declared scalar fields, in the order of comparison: `[{"fields": ["status", "score"]}]`. */
      readonly indexes?: readonly {
        readonly fields: readonly string[]
      }[]
      /** Declared scalar fields whose values must be unique: `[["email"]]`, or only among the documents that meet a condition: `[{"fields": ["slug"], "where": {"state": "published"}}]`. `null` and missing values never conflict. */
      readonly unique?: readonly (readonly string[] | {
        readonly fields: readonly string[]
        /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
        readonly where?: Readonly<Record<string, unknown>>
      })[]
      /** Declared texts that a list finds by similarity, also with typos: `title=near.mlik`. */
      readonly trigram?: readonly string[]
      /** Declared arrays with an index of their elements, which serves `cs` and `ov`: `tags=cs.{a,b}`. */
      readonly arrays?: readonly string[]
      readonly geo?: readonly string[] | null
      readonly search?: {
        /** Declared texts, each with its weight in the score: `A` counts most, `D` least. */
        readonly fields: Readonly<Record<string, 'A' | 'B' | 'C' | 'D'>>
        /** Language of the texts; `simple`: words are compared as they are written. */
        readonly language: 'simple' | 'arabic' | 'armenian' | 'basque' | 'catalan' | 'danish' | 'dutch' | 'english' | 'estonian' | 'finnish' | 'french' | 'german' | 'greek' | 'hindi' | 'hungarian' | 'indonesian' | 'irish' | 'italian' | 'lithuanian' | 'nepali' | 'norwegian' | 'portuguese' | 'romanian' | 'russian' | 'serbian' | 'spanish' | 'swedish' | 'tamil' | 'turkish' | 'yiddish'
      } | null
      /** Fields that hold the id of a document of a collection that is declared in the same workspace: `[{"field": "customer_id", "collection": "customers", "inverse": "orders"}]`. */
      readonly references?: readonly {
        /** Declared field of type string with the format `uuid`. */
        readonly field: string
        /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
        readonly collection: string
        /** Name of the other document in `expand`. Default: the field without `_id`. */
        readonly as?: string
        /** Name, in `expand` of the other collection, of the documents that refer to one of it. */
        readonly inverse?: string
        /** Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`. `none`: they keep an id that no document has; the only one if either collection is in MongoDB. */
        readonly on_delete?: 'restrict' | 'cascade' | 'set_null' | 'none'
      }[]
      /** Conditions that each document must meet: `[{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}}]`. `null` and missing values break none. */
      readonly checks?: readonly {
        /** Name of the check in problems. */
        readonly name: string
        /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
        readonly check: Readonly<Record<string, unknown>>
        /** Sentence in the problem of a document that breaks the check. */
        readonly message?: string
      }[]
      /** Ranges that do not overlap: `[{"fields": ["court_id"], "range": ["starts_at", "ends_at"]}]`. A document without one of these values, or that does not meet `where`, excludes none. */
      readonly exclude?: readonly {
        /** Declared scalar fields. Only documents with equal values in all of them exclude each other. */
        readonly fields: readonly string[]
        /** Fields with the start of the range, and with its end, which does not belong to it. Both are declared with one type: `integer`, `number`, or a string with the format `date-time`, `date`, `decimal` or `int64`. */
        readonly range: readonly string[]
        /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
        readonly where?: Readonly<Record<string, unknown>>
      }[]
      readonly ttl?: {
        /** Declared field of type string with the format `date-time`, or `_created_at`. */
        readonly field: string
        /** Time from the value of the field until the document expires, from 1s to 36500d. Default: none. Format: `90s`, `15m`, `1h`. */
        readonly after?: string
      } | null
    }, options?: CallOptions): Promise<CollectionSchema | Operation>
    /** List declared collections. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly workspace_id?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly CollectionSchema[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read the declaration of a collection. */
    get(input: {
      /** Id of the schema. */
      readonly id: string
    }, options?: CallOptions): Promise<CollectionSchema>
    /** Update the declaration of a collection; absent members do not change. */
    update(input: {
      /** Id of the schema. */
      readonly id: string
      readonly prefer?: string
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly collection?: string
      readonly store?: 'relational' | 'document'
      /** Id of the workspace. */
      readonly workspace_id?: string
      /** JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`. */
      readonly schema?: Readonly<Record<string, unknown>>
      /** Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch. */
      readonly mode?: 'off' | 'warn' | 'enforce'
      readonly access?: CollectionAccess
      /** Indexes on declared scalar fields, in the order of comparison: `[{"fields": ["status", "score"]}]`. */
      readonly indexes?: readonly {
        readonly fields: readonly string[]
      }[]
      /** Declared scalar fields whose values must be unique: `[["email"]]`, or only among the documents that meet a condition: `[{"fields": ["slug"], "where": {"state": "published"}}]`. `null` and missing values never conflict. */
      readonly unique?: readonly (readonly string[] | {
        readonly fields: readonly string[]
        /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
        readonly where?: Readonly<Record<string, unknown>>
      })[]
      /** Declared texts that a list finds by similarity, also with typos: `title=near.mlik`. */
      readonly trigram?: readonly string[]
      /** Declared arrays with an index of their elements, which serves `cs` and `ov`: `tags=cs.{a,b}`. */
      readonly arrays?: readonly string[]
      readonly geo?: readonly string[] | null
      readonly search?: {
        /** Declared texts, each with its weight in the score: `A` counts most, `D` least. */
        readonly fields: Readonly<Record<string, 'A' | 'B' | 'C' | 'D'>>
        /** Language of the texts; `simple`: words are compared as they are written. */
        readonly language: 'simple' | 'arabic' | 'armenian' | 'basque' | 'catalan' | 'danish' | 'dutch' | 'english' | 'estonian' | 'finnish' | 'french' | 'german' | 'greek' | 'hindi' | 'hungarian' | 'indonesian' | 'irish' | 'italian' | 'lithuanian' | 'nepali' | 'norwegian' | 'portuguese' | 'romanian' | 'russian' | 'serbian' | 'spanish' | 'swedish' | 'tamil' | 'turkish' | 'yiddish'
      } | null
      /** Fields that hold the id of a document of a collection that is declared in the same workspace: `[{"field": "customer_id", "collection": "customers", "inverse": "orders"}]`. */
      readonly references?: readonly {
        /** Declared field of type string with the format `uuid`. */
        readonly field: string
        /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
        readonly collection: string
        /** Name of the other document in `expand`. Default: the field without `_id`. */
        readonly as?: string
        /** Name, in `expand` of the other collection, of the documents that refer to one of it. */
        readonly inverse?: string
        /** Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`. `none`: they keep an id that no document has; the only one if either collection is in MongoDB. */
        readonly on_delete?: 'restrict' | 'cascade' | 'set_null' | 'none'
      }[]
      /** Conditions that each document must meet: `[{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}}]`. `null` and missing values break none. */
      readonly checks?: readonly {
        /** Name of the check in problems. */
        readonly name: string
        /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
        readonly check: Readonly<Record<string, unknown>>
        /** Sentence in the problem of a document that breaks the check. */
        readonly message?: string
      }[]
      /** Ranges that do not overlap: `[{"fields": ["court_id"], "range": ["starts_at", "ends_at"]}]`. A document without one of these values, or that does not meet `where`, excludes none. */
      readonly exclude?: readonly {
        /** Declared scalar fields. Only documents with equal values in all of them exclude each other. */
        readonly fields: readonly string[]
        /** Fields with the start of the range, and with its end, which does not belong to it. Both are declared with one type: `integer`, `number`, or a string with the format `date-time`, `date`, `decimal` or `int64`. */
        readonly range: readonly string[]
        /** Structured filter on declared fields, as in a query. `{"$field": "starts_at"}` in the place of a value is another field of the document. */
        readonly where?: Readonly<Record<string, unknown>>
      }[]
      readonly ttl?: {
        /** Declared field of type string with the format `date-time`, or `_created_at`. */
        readonly field: string
        /** Time from the value of the field until the document expires, from 1s to 36500d. Default: none. Format: `90s`, `15m`, `1h`. */
        readonly after?: string
      } | null
      /** Former names of fields, by their new names: `{"label": "title"}`. Documents have the new names at once, in the same version. Those that are renamed already are left out. */
      readonly renamed_from?: Readonly<Record<string, string>>
      /** Values of declared fields for documents that lack them: `{"status": "open"}`. They keep their versions, and no change events are published. */
      readonly backfill?: Readonly<Record<string, unknown>>
      /** Revision that the change is based on; any other current revision is a conflict. */
      readonly revision?: number
    }, options?: CallOptions): Promise<CollectionSchema | Operation>
    /** Delete the declaration of an empty collection. */
    delete(input: {
      /** Id of the schema. */
      readonly id: string
    }, options?: CallOptions): Promise<Deleted>
  }
  readonly quotas: {
    /** Set quotas of a workspace or a tenant; absent quotas do not change; admins of a tenant divide its own among its workspaces. */
    set(input: {
      /** Id of the workspace. */
      readonly workspace_id?: string
      /** Id of the tenant, for quotas that count all of its workspaces. */
      readonly tenant_id?: string
      readonly limits: {
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly collections?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly documents?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly document_bytes?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly object_bytes?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly events_per_day?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly functions?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly invocations_per_day?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly flows?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly flow_versions?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly concurrent_executions?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly execution_starts_per_minute?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly schedules?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly mcp_servers?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly mcp_tools?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly mcp_calls_per_minute?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly api_keys?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly users?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly workspaces?: number
        /** Limit of the quota, a number of items or of bytes as its name says. -1: no limit; for `sse_streams`, the limit of the platform per tenant. */
        readonly sse_streams?: number
      }
    }, options?: CallOptions): Promise<Quotas>
    /** Read the quotas of a workspace or a tenant: limit, used, remaining. */
    get(input?: {
      /** Id of the workspace. */
      readonly workspace_id?: string
      /** Id of the tenant, for quotas that count all of its workspaces. */
      readonly tenant_id?: string
    }, options?: CallOptions): Promise<Quotas>
  }
  readonly services: {
    /** Configure a workspace: experimental features, access of anon keys and users, sign-up and retention; operators also allow addresses for its flows. */
    configure(input: {
      /** ETag that the settings must have to be changed (`If-Match`). */
      readonly if_match?: string
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Experimental features that are enabled. */
      readonly experimental?: readonly ('mcp.flow_tools' | 'mcp.images')[]
      readonly egress?: {
        readonly allow: readonly string[]
      }
      readonly anon?: {
        /** Collections that anon keys read besides those that `access.anon.read` of a declaration opens. `read`: undeclared collections and those whose declaration has no `access`; `none`: no others. Default: `none`. */
        readonly collections?: 'read' | 'none'
        /** Objects that anon keys read. `public`: those below the prefixes of `objects.public_read`; `none`: no objects. Default: `none`. */
        readonly objects?: 'none' | 'public'
        /** Events that anon keys receive. `workspace`: published events and changes of their own workspace; `none`: no events. Default: `workspace`. */
        readonly events?: 'workspace' | 'none'
      }
      readonly cors?: {
        readonly origins: readonly string[]
      }
      readonly operators?: {
        /** Access of operators to the data of the workspace. `allowed`: they get data tokens; `refused`: only admins of the workspace and its tenant do, and no operator can change that. */
        readonly data?: 'allowed' | 'refused'
      }
      readonly auth?: {
        /** Ways in which users join the workspace. `off`: no new users; `invite`: by invitation of an admin; `open`: also by signing up. Default: `off`. */
        readonly sign_up?: 'off' | 'invite' | 'open'
        /** Branding of the hosted pages; a new value replaces all of its members. Default: the name of the workspace. */
        readonly branding?: {
          readonly name?: string
          /** URL of the logo: `https` without a query, or `data:image/png|jpeg|webp;base64,…` of at most 64 KiB. SVG is not allowed. */
          readonly logo_url?: string
          /** Color of buttons and links; white text on it needs a contrast of at least 4.5:1. */
          readonly color?: string
        }
        /** Identity providers; a new list replaces all of them. */
        readonly providers?: readonly {
          /** Id of the provider, which is part of the redirect URI. */
          readonly id: string
          /** Name of the provider on the sign-in page: "Continue with …". */
          readonly name: string
          /** Issuer identifier of the provider, with a discovery document (OpenID Connect Discovery 1.0). `http` is allowed only at an address in `egress.allow`. */
          readonly issuer: string
          readonly client_id: string
          /** Rule for sign-ins without a user account in the workspace. `open`: the account is created; `invite`: an invitation is required. Default: the `sign_up` of the workspace. */
          readonly sign_up?: 'invite' | 'open'
          /** Client secret at the provider, which is never returned. If absent, the stored secret is kept as long as `issuer` and `client_id` are the same; a public client has none. */
          readonly client_secret?: string
        }[]
      }
      readonly objects?: {
        /** Prefixes of the object keys that anon keys may read. */
        readonly public_read?: readonly string[]
        readonly user?: {
          /** Prefixes of the object keys that users may read, each ending with a slash: `avatars/{user.id}/`. */
          readonly read?: readonly string[]
          /** Prefixes of the object keys that users may write, each ending with a slash: `avatars/{user.id}/`. */
          readonly write?: readonly string[]
          /** Prefixes of the object keys that users may delete, each ending with a slash: `avatars/{user.id}/`. */
          readonly delete?: readonly string[]
        }
        readonly images?: {
          /** Sizes in pixels: `320` is a width, `x240` a height, `320x240` both; a side has at most 2560. Without any, no image is converted. */
          readonly sizes?: readonly string[]
          /** Formats of converted images; an image in another one gets the first. Default: jpeg, png, webp. */
          readonly formats?: readonly ('jpeg' | 'png' | 'webp' | 'avif')[]
        }
      }
      readonly topics?: {
        readonly user?: {
          /** Topics that users may subscribe to: `lobby`, or `chat.{user.id}.*` for all topics below `chat.{user.id}`. */
          readonly subscribe?: readonly string[]
          /** Topics that users may publish to: `lobby`, or `chat.{user.id}.*` for all topics below `chat.{user.id}`. */
          readonly publish?: readonly string[]
        }
      }
      readonly retention?: WorkspaceRetention
      /** Settings of the tenant of the workspace, for all of its workspaces. */
      readonly tenant?: {
        readonly retention: TenantRetention
      }
      /** True if nothing is to be changed: the response has the changes that would be made. Default: `false`. */
      readonly dry_run?: boolean
    }, options?: CallOptions): Promise<WorkspaceSettings>
    /** Read the settings of a workspace. */
    get(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<WorkspaceSettings>
  }
  readonly audit: {
    /** List entries of the audit log, newest first. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the tenant whose entries are read. Default: your own tenant; for operators, the entries of no tenant. */
      readonly tenant_id?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly since?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly until?: string
      /** Id of the key, user or run. */
      readonly actor?: string
      /** Name of the operation, such as `tenant.create`. */
      readonly operation?: string
      readonly outcome?: 'done' | 'denied' | 'failed'
      /** Id of a request. */
      readonly request_id?: string
      /** Id of a trace. */
      readonly trace_id?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly AuditEntry[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Verify the chain of the audit log, up to 10,000 entries per call. */
    verify(input?: {
      /** Id of the tenant whose entries are read. Default: your own tenant; for operators, the entries of no tenant. */
      readonly tenant_id?: string
      /** `next` of the previous call. */
      readonly after?: number
      /** Head that was recorded elsewhere, as `<seq>:<hash>`; it must still be in the chain. One that retention has removed since is refused with `validation_failed`. */
      readonly anchor?: string
    }, options?: CallOptions): Promise<ChainVerification>
  }
  readonly codec: {
    /** Decrypt Temporal payloads; admins decrypt those of their own tenant or workspace. */
    decode(input: {
      /** True if the Temporal UI asks to preserve references to external storage of Temporal; ignored. */
      readonly preserveStorageRefs?: boolean
      readonly payloads: readonly {
        readonly metadata?: Readonly<Record<string, string>>
        readonly data?: string
      }[]
    }, options?: CallOptions): Promise<TemporalPayloads>
    /** Encrypt payloads for Temporal with the key of a tenant. */
    encode(input: {
      readonly payloads: readonly {
        readonly metadata?: Readonly<Record<string, string>>
        readonly data?: string
      }[]
      /** Id of the tenant. */
      readonly tenant_id?: string
    }, options?: CallOptions): Promise<TemporalPayloads>
  }
  readonly batch: {
    /** Write documents of several collections in one request; by default, all or none. */
    run(input: {
      /** True if either all changes are made or none; `false`: each change on its own. Default: `true`. */
      readonly atomic?: boolean
      readonly ops: readonly BatchOperationAnywhere[]
    }, options?: CallOptions): Promise<BatchResults>
  }
  readonly bulkChanges: {
    /** Read a bulk change; users read their own. */
    get(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the bulk change. */
      readonly id: string
    }, options?: CallOptions): Promise<BulkChange>
    /** List the bulk changes of a collection, newest first; users see their own. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly BulkChange[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Cancel a bulk change; documents that are changed already stay changed. */
    cancel(input: {
      /** Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`. */
      readonly name: string
      /** Id of the bulk change. */
      readonly id: string
    }, options?: CallOptions): Promise<BulkChange>
  }
  readonly objects: {
    /** Store an object. */
    put(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8. */
      readonly key: string
      /** Content coding of the bytes, such as `gzip`; they are stored unchanged. */
      readonly content_encoding?: string
      /** Presentation in browsers, such as `attachment; filename="report.pdf"`. */
      readonly content_disposition?: string
      /** Language of the content, such as `de`. */
      readonly content_language?: string
      /** Caching by clients, such as `max-age=60`. Shared caches may not store the object, since each request has a credential. */
      readonly cache_control?: string
      /** MD5 of the body in base64 (RFC 1864). */
      readonly content_md5?: string
      /** Digest of the body: `sha-256=:<base64>:` or `sha-512=:<base64>:` (RFC 9530). */
      readonly content_digest?: string
      /** Digest of the stored bytes, which are those of the body, in the form of `Content-Digest`. */
      readonly repr_digest?: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** ETag that the object must not have. `*`: the object must not exist. */
      readonly if_none_match?: string
      /** Date after which the object must not have changed; ignored with `If-Match`. */
      readonly if_unmodified_since?: string
      readonly content: RequestBody
    }, options?: CallOptions): Promise<StoredObject>
    /** Read the metadata of an object, without its content. */
    head(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8. */
      readonly key: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** ETag that the object must not have. `*`: the object must not exist. */
      readonly if_none_match?: string
      /** Date since which the object must have changed; otherwise the status is 304. Ignored with `If-None-Match`. */
      readonly if_modified_since?: string
      /** Date after which the object must not have changed; ignored with `If-Match`. */
      readonly if_unmodified_since?: string
      /** Converts an image to this width in pixels, if the setting `objects.images` of the workspace lists the size. Nothing is enlarged. */
      readonly width?: number
      /** Converts an image to this height in pixels, if the setting `objects.images` of the workspace lists the size. Nothing is enlarged. */
      readonly height?: number
      /** Way to fill `width` and `height`: `cover` cuts off what is too much, `contain` adds margins, `fill` distorts; with `inside` the whole image is at most of that size, with `outside` at least. Default: `cover`. */
      readonly fit?: 'cover' | 'contain' | 'fill' | 'inside' | 'outside'
      /** Format of a converted image. `auto`: AVIF or WebP if the header `Accept` names them and the workspace allows them. Default: that of the object. */
      readonly format?: 'auto' | 'jpeg' | 'png' | 'webp' | 'avif'
      /** `Cache-Control` of the reply; always `private`. */
      readonly response_cache_control?: string
      /** `Content-Disposition` of the reply, such as `attachment; filename="may.pdf"`. */
      readonly response_content_disposition?: string
      /** `Content-Encoding` of the reply. */
      readonly response_content_encoding?: string
      /** `Content-Language` of the reply. */
      readonly response_content_language?: string
      /** `Content-Type` of the reply. */
      readonly response_content_type?: string
      /** `Expires` of the reply. */
      readonly response_expires?: string
    }, options?: CallOptions): Promise<void>
    /** Read an object, or a range of it. */
    get(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8. */
      readonly key: string
      /** Range of bytes, such as `bytes=0-99`; a range of another unit is ignored (RFC 9110 §14.2). */
      readonly range?: string
      /** ETag or date of the version that the range belongs to; the whole object is sent if it has another version. */
      readonly if_range?: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** ETag that the object must not have. `*`: the object must not exist. */
      readonly if_none_match?: string
      /** Date since which the object must have changed; otherwise the status is 304. Ignored with `If-None-Match`. */
      readonly if_modified_since?: string
      /** Date after which the object must not have changed; ignored with `If-Match`. */
      readonly if_unmodified_since?: string
      /** Converts an image to this width in pixels, if the setting `objects.images` of the workspace lists the size. Nothing is enlarged. */
      readonly width?: number
      /** Converts an image to this height in pixels, if the setting `objects.images` of the workspace lists the size. Nothing is enlarged. */
      readonly height?: number
      /** Way to fill `width` and `height`: `cover` cuts off what is too much, `contain` adds margins, `fill` distorts; with `inside` the whole image is at most of that size, with `outside` at least. Default: `cover`. */
      readonly fit?: 'cover' | 'contain' | 'fill' | 'inside' | 'outside'
      /** Format of a converted image. `auto`: AVIF or WebP if the header `Accept` names them and the workspace allows them. Default: that of the object. */
      readonly format?: 'auto' | 'jpeg' | 'png' | 'webp' | 'avif'
      /** `Cache-Control` of the reply; always `private`. */
      readonly response_cache_control?: string
      /** `Content-Disposition` of the reply, such as `attachment; filename="may.pdf"`. */
      readonly response_content_disposition?: string
      /** `Content-Encoding` of the reply. */
      readonly response_content_encoding?: string
      /** `Content-Language` of the reply. */
      readonly response_content_language?: string
      /** `Content-Type` of the reply. */
      readonly response_content_type?: string
      /** `Expires` of the reply. */
      readonly response_expires?: string
    }, options?: CallOptions): Promise<Response>
    /** Delete an object. */
    delete(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8. */
      readonly key: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** Date after which the object must not have changed; ignored with `If-Match`. */
      readonly if_unmodified_since?: string
    }, options?: CallOptions): Promise<DeletedObject>
    /** Store the file of a form. */
    uploadForm(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8. */
      readonly key: string
      readonly form: RequestBody
    }, options?: CallOptions): Promise<StoredObject>
    /** List the objects of a bucket, in the byte order of their keys. */
    list(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Prefix of the keys to list. */
      readonly prefix?: string
      /** Separator, such as `/`: keys that have it behind the prefix are listed once, as their common prefix in `prefixes`. */
      readonly delimiter?: string
    }, options?: CallOptions): Promise<ObjectPage>
    /** Create a link that carries one request for one object, without another credential. */
    presign(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object: the rest of the path, percent-decoded once; at most 1,024 bytes of UTF-8. */
      readonly key: string
      /** Request of the link. `GET`, also `HEAD`: reads the object; `PUT`: stores the body; `POST`: stores the file of a form (`multipart/form-data`). Default: `GET`. */
      readonly method?: 'GET' | 'PUT' | 'POST'
      /** Seconds for which the link can be used. Default: 900. */
      readonly expires_in?: number
      /** Media type that an upload must have, or that the reply to a download has. Default: every type; that of the object. */
      readonly content_type?: string
      /** Greatest size of an upload, in bytes. */
      readonly max_bytes?: number
      /** Header `Content-Disposition`, such as `attachment; filename="may.pdf"`: of the reply to a download; kept with the object by an upload. */
      readonly disposition?: string
    }, options?: CallOptions): Promise<ObjectLink>
    /** Read what is kept with an object, without its content. */
    describe(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Key of the object. */
      readonly key: string
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<ObjectDescription>
    /** Replace the metadata or the tags of an object; absent ones do not change. */
    update(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** ETag that `GET` of this path, or the last change, has answered: 412 if the object, its metadata or its tags have changed since. */
      readonly if_match?: string
      /** Key of the object. */
      readonly key: string
      /** Texts of your own that are kept with the object: headers `x-meta-<name>`, in lower case. */
      readonly metadata?: Readonly<Record<string, string>>
      /** Tags of the object, at most 10: keys of 1 to 128 characters, and values of at most 256. */
      readonly tags?: Readonly<Record<string, string>>
    }, options?: CallOptions): Promise<ObjectDescription>
    /** Copy an object within its bucket. */
    copy(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** ETag that the object must not have. `*`: the object must not exist. */
      readonly if_none_match?: string
      /** Key of the object to copy. */
      readonly from: string
      /** Key of the copy. */
      readonly to: string
    }, options?: CallOptions): Promise<StoredObject>
    /** Move an object to another key, in one step. */
    move(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** ETag that the object must not have. `*`: the object must not exist. */
      readonly if_none_match?: string
      /** Key of the object. */
      readonly from: string
      /** New key of the object. */
      readonly to: string
    }, options?: CallOptions): Promise<StoredObject>
    /** Delete objects by their keys, or all below a prefix. */
    removeAll(input: {
      /** Name of the bucket. */
      readonly bucket: string
      /** Keys of the objects. Send either `keys` or `prefix`. */
      readonly keys?: readonly string[]
      /** Prefix of the keys, such as `old/`. If there are more than 1000, a worker deletes them: the answer is 202 with the operation. Objects that are written meanwhile stay. */
      readonly prefix?: string
    }, options?: CallOptions): Promise<RemovedObjects | ObjectRemoval>
    /** Read how far the deletion of all objects below a prefix is. */
    getRemoval(input: {
      /** Id of the operation, without `del_`. */
      readonly id: string
    }, options?: CallOptions): Promise<ObjectRemoval>
  }
  readonly uploads: {
    /** Create an upload that can be resumed (tus). */
    create(input: {
      /** Version of tus: `1.0.0`, also if it is absent. */
      readonly tus_resumable?: string
      /** Size of the object in bytes. */
      readonly upload_length?: string
      /** The value `1`, in place of `Upload-Length`: a later request has the length. */
      readonly upload_defer_length?: '1'
      /** Pairs of a name and a value in base64, with commas between: `bucket`, `key`, and optionally `content-type` (or `filetype`), `content-encoding`, `content-disposition`, `content-language`, `cache-control`, `x-meta-<name>`. Other names are sent back by HEAD, and mean nothing. */
      readonly upload_metadata?: string
      /** ETag that the object must have. `*`: the object must exist. */
      readonly if_match?: string
      /** ETag that the object must not have. `*`: the object must not exist. */
      readonly if_none_match?: string
      /** Digest of the body: `md5`, `sha1` or `sha256`, a space, and the digest in base64. If it differs, nothing of the body is kept. */
      readonly upload_checksum?: string
      readonly content: RequestBody
    }, options?: CallOptions): Promise<Response>
    /** Read how many bytes of an upload are stored (tus). */
    head(input: {
      /** Id of the upload, from its `Location`. */
      readonly upload_id: string
      /** Version of tus: `1.0.0`, also if it is absent. */
      readonly tus_resumable?: string
    }, options?: CallOptions): Promise<void>
    /** Append bytes to an upload (tus). */
    append(input: {
      /** Id of the upload, from its `Location`. */
      readonly upload_id: string
      /** Version of tus: `1.0.0`, also if it is absent. */
      readonly tus_resumable?: string
      /** Number of bytes of the object before the body: as many as are stored. */
      readonly upload_offset?: string
      /** Size of the object in bytes. */
      readonly upload_length?: string
      /** Digest of the body: `md5`, `sha1` or `sha256`, a space, and the digest in base64. If it differs, nothing of the body is kept. */
      readonly upload_checksum?: string
      readonly content: RequestBody
    }, options?: CallOptions): Promise<Response>
    /** Delete an upload (tus); the object of a complete one stays. */
    delete(input: {
      /** Id of the upload, from its `Location`. */
      readonly upload_id: string
      /** Version of tus: `1.0.0`, also if it is absent. */
      readonly tus_resumable?: string
    }, options?: CallOptions): Promise<Response>
  }
  readonly events: {
    /** Publish an event to the tenant. */
    publish(input: {
      /** Topic: words separated by dots, such as `orders.created`. */
      readonly topic: string
      readonly data: unknown
    }, options?: CallOptions): Promise<PublishedEvent>
    /** Subscribe to topics of the tenant and to changes of documents and objects, as server-sent events (CloudEvents 1.0). */
    subscribe(input: {
      /** Up to 20 topics, separated by commas: each is one topic, or `orders.*` for all topics below `orders`. `collections.<name>.created|updated|deleted` are changes of documents, `objects.created|updated|deleted` of objects, `platform.execution.completed|faulted|cancelled|held|overdue` states of executions, `platform.execution_status.changed` their starts and other changes of status, `platform.flow.missed` missed starts, `platform.bulk_change.completed|failed|cancelled` ended bulk changes, `platform.workspace.created|suspended|resumed|deleted|restored|drifted` and the same of `platform.tenant` states of the workspace and its tenant. */
      readonly topic: string
      /** Restriction to events of this workspace. Changes below `collections` and `objects`, and all events that anon keys and users receive, are always restricted to it. */
      readonly workspace?: 'self'
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
  }
  readonly functions: {
    /** Invoke a function and wait for its result, or start an asynchronous run. */
    invoke(input: {
      /** Id of the function, or its name, or `name@alias`. */
      readonly id: string
      readonly version?: number
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly alias?: string
      readonly prefer?: string
      /** Input of the function. Default: an empty object. */
      readonly input?: unknown
    }, options?: CallOptions): Promise<unknown>
    /** Send an HTTP request, of any method, to the export `fetch` of a function. */
    fetch(input: {
      /** Id of the function, or its name. */
      readonly id: string
      /** Rest of the path, which the code receives as the path of its URL. */
      readonly path: string
      readonly request?: RequestBody
    }, options?: CallOptions): Promise<Response>
    /** Deploy a function; if the name exists, the function gets its next version. */
    create(input: {
      /** Id of the workspace. */
      readonly workspace_id: string
      /** Name of the function, unique in the workspace: at most 63 lower-case letters, digits and hyphens, the first a letter. */
      readonly name: string
      /** TypeScript or JavaScript: one module of up to 5 MiB, whose `export default` is called with the input. It can import only `tenon`. */
      readonly source: string
      /** Source map (version 3, JSON) of a bundled source, up to 5 MiB; locations of errors then refer to the original files. */
      readonly source_map?: string
      readonly config?: {
        /** Maximum duration of a run, at most 15m, and 60s for callers that wait. Default: `10s`. Format: `90s`, `15m`, `1h`. */
        readonly timeout?: string
        /** Maximum memory of the process in megabytes. Default: 128. */
        readonly memory_mb?: number
        /** Maximum number of concurrent runs. `null`: no limit of its own. Default: `null`. */
        readonly concurrency?: number | null
        /** Environment of the code as `context.env`, for settings that are no secrets. A name has at most 64 letters, digits and `_`, and does not begin with a digit. */
        readonly env?: Readonly<Record<string, string>>
        /** Names of secrets of the workspace, which the code receives as `context.secrets`. */
        readonly secrets?: readonly string[]
        /** Servers that the code may send requests to: `host:port`, `*.example.com:443`, or `*` for all public ones. Default: none. */
        readonly egress?: readonly string[]
        /** Scopes of a service key that the code acts with, such as `collections:write`. Default: none, so that the code acts with the rights of its caller. */
        readonly scopes?: readonly string[]
        readonly schedule?: {
          /** Cron expression of five fields: minute, hour, day, month, weekday. */
          readonly cron: string
          /** IANA name of the time zone. Default: `UTC`. */
          readonly timezone?: string
          /** Input of each run. Default: an empty object. */
          readonly input?: unknown
        } | null
        readonly triggers?: readonly {
          /** Topics of events, or `orders.*` for all topics below `orders`; `collections.<name>.created`, `.updated` and `.deleted` are changes of documents in the workspace. */
          readonly topics: readonly string[]
        }[]
        /** True if a run may be repeated after a failure. Default: `false`. */
        readonly idempotent?: boolean
        /** Maximum number of repetitions of a failed run; requires `idempotent`. Default: 0. */
        readonly retries?: number
        /** True if anon keys may invoke the function. Default: `false`. */
        readonly anon?: boolean
        /** True if users may invoke the function. Default: `false`. */
        readonly user?: boolean
      }
      /** Number of the version that must be active. 0: there must be no function of this name. Otherwise nothing is deployed (`precondition_failed`). */
      readonly expected_version?: number
    }, options?: CallOptions): Promise<DeployedFunction>
    /** List functions. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly workspace_id?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Function[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a function and the source of its version. */
    get(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<FunctionWithSource>
    /** Delete a function with all its versions; runs that have started continue. */
    delete(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<Deleted>
    /** Update the configuration of a function, for runs that start from now on; absent members do not change. */
    configure(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Maximum duration of a run, at most 15m, and 60s for callers that wait. Default: `10s`. Format: `90s`, `15m`, `1h`. */
      readonly timeout?: string
      /** Maximum memory of the process in megabytes. Default: 128. */
      readonly memory_mb?: number
      /** Maximum number of concurrent runs. `null`: no limit of its own. Default: `null`. */
      readonly concurrency?: number | null
      /** Environment of the code as `context.env`, for settings that are no secrets. A name has at most 64 letters, digits and `_`, and does not begin with a digit. */
      readonly env?: Readonly<Record<string, string>>
      /** Names of secrets of the workspace, which the code receives as `context.secrets`. */
      readonly secrets?: readonly string[]
      /** Servers that the code may send requests to: `host:port`, `*.example.com:443`, or `*` for all public ones. Default: none. */
      readonly egress?: readonly string[]
      /** Scopes of a service key that the code acts with, such as `collections:write`. Default: none, so that the code acts with the rights of its caller. */
      readonly scopes?: readonly string[]
      readonly schedule?: {
        /** Cron expression of five fields: minute, hour, day, month, weekday. */
        readonly cron: string
        /** IANA name of the time zone. Default: `UTC`. */
        readonly timezone?: string
        /** Input of each run. Default: an empty object. */
        readonly input?: unknown
      } | null
      readonly triggers?: readonly {
        /** Topics of events, or `orders.*` for all topics below `orders`; `collections.<name>.created`, `.updated` and `.deleted` are changes of documents in the workspace. */
        readonly topics: readonly string[]
      }[]
      /** True if a run may be repeated after a failure. Default: `false`. */
      readonly idempotent?: boolean
      /** Maximum number of repetitions of a failed run; requires `idempotent`. Default: 0. */
      readonly retries?: number
      /** True if anon keys may invoke the function. Default: `false`. */
      readonly anon?: boolean
      /** True if users may invoke the function. Default: `false`. */
      readonly user?: boolean
    }, options?: CallOptions): Promise<ConfiguredFunction>
  }
  readonly flows: {
    /** Start an execution of a published version of a flow. */
    start(input: {
      /** Id of the flow, or its name. */
      readonly flow: string
      readonly prefer?: string
      readonly input?: unknown
      readonly version?: number
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly alias?: string
      /** Your own key of the execution, such as an order number. The key is not encrypted: operators can search by it. */
      readonly correlation_key?: string
    }, options?: CallOptions): Promise<Execution>
    /** List the executions of a flow, newest first. */
    listExecutions(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Values of which a record must have one; in a query, separated by commas. */
      readonly status?: readonly ('pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed')[]
      /** Value of `error.type` in the executions to list: the URI, or the short name of a standard type, such as `communication`. */
      readonly error_type?: string
      /** Version of the flow that `flow` names. */
      readonly version?: number
      readonly trigger?: 'manual' | 'schedule' | 'webhook' | 'event' | 'flow' | 'rerun'
      /** Id of the trigger. */
      readonly trigger_id?: string
      /** Your own key of the execution, such as an order number. The key is not encrypted: operators can search by it. */
      readonly correlation_key?: string
      /** Only executions that were compensated: completely (`completed`), or with failures (`failed`). */
      readonly compensation?: 'completed' | 'failed'
      /** Only executions created at this time or later. */
      readonly started_after?: string
      /** Only executions created before this time. */
      readonly started_before?: string
      /** Order by `started_at`. Default: `desc`, newest first. */
      readonly order?: 'asc' | 'desc'
      /** Id of the flow, or its name. */
      readonly flow: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly ExecutionSummary[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an execution and its steps. */
    getExecution(input: {
      /** Id of the execution. */
      readonly id: string
    }, options?: CallOptions): Promise<Execution>
    /** Stream the past and future events of an execution as server-sent events (CloudEvents 1.0). */
    watchExecution(input: {
      /** Id of the execution. */
      readonly id: string
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
    /** Read the result of an execution; the status is 202 while it runs. */
    getResult(input: {
      /** Id of the execution. */
      readonly id: string
      readonly prefer?: string
    }, options?: CallOptions): Promise<ExecutionResult>
    /** List flow definitions, without their sources. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FlowSummary[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Create a flow definition (a draft). */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Name of the flow, unique in the workspace. */
      readonly name?: string
      /** Source of the flow in YAML. */
      readonly source: string
    }, options?: CallOptions): Promise<WrittenFlow>
    /** Read a flow definition. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<Flow>
    /** Replace the draft of a flow; published versions do not change. */
    update(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      /** ETag that the draft must have to be changed (`If-Match`). */
      readonly if_match?: string
      /** Source of the flow in YAML. */
      readonly source: string
    }, options?: CallOptions): Promise<WrittenFlow>
    /** Delete a flow; its executions are kept until the retention of the workspace removes them. */
    delete(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
    }, options?: CallOptions): Promise<Deleted>
    /** Count the executions of a flow by status, or measure their durations, over a window. */
    metrics(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      /** Metric to return. `executions`: number of executions started, by current status. `duration`: duration of ended executions in milliseconds, by quantile. */
      readonly metric: 'executions' | 'duration'
      /** Length of the window up to now, at most 90 days. Format: `90s`, `15m`, `1h`. */
      readonly window: string
    }, options?: CallOptions): Promise<TimeSeries>
    /** Check a flow and return all diagnostics, each with line, column and pointer. */
    validate(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Source of the flow in YAML. */
      readonly source: string
    }, options?: CallOptions): Promise<FlowValidation>
    /** Return the graph of a flow: nodes, edges, and Mermaid text; the status is 422, with all diagnostics, if it is not valid. */
    graph(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Source of the flow in YAML. */
      readonly source: string
    }, options?: CallOptions): Promise<FlowGraph>
    /** Simulate a flow with mocked answers in virtual time; no external call is made. */
    simulate(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Source of the flow in YAML. */
      readonly source: string
      readonly input?: unknown
      /** Mocked answers by task (name or pointer) or by function: `{output, after?}` or `{error: {type}, after?}`; a list is used one by one. */
      readonly mocks?: Readonly<Record<string, unknown>>
      /** Id of an execution whose input, answers, id, start time and starter are used if the request has none. Of one that another has started, this needs the right to see payloads. */
      readonly mocks_from?: string
      readonly events?: readonly {
        readonly event: Readonly<Record<string, unknown>>
        /** Duration since the start: `PT5S`, or `{seconds: 5}`. */
        readonly after?: unknown
      }[]
      readonly decisions?: readonly {
        readonly task: string
        readonly decision: Readonly<Record<string, unknown>>
        /** Duration since the start: `PT5S`, or `{seconds: 5}`. */
        readonly after?: unknown
      }[]
      readonly options?: {
        /** Start time (RFC 3339). */
        readonly start?: string
        readonly random?: number
        /** Value of `$workflow.id`. Default: `simulation`. */
        readonly id?: string
        readonly started_by?: string
        /** True if the response includes lifecycle events (OWS 1.0). Default: `false`. */
        readonly lifecycle?: boolean
      }
    }, options?: CallOptions): Promise<FlowSimulation>
  }
  readonly inbox: {
    /** List approvals, by default those that are open. */
    list(input?: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** True if only the approvals that the caller may decide now are listed. Default: `false`. */
      readonly mine?: boolean
      readonly status?: 'open' | 'approved' | 'rejected' | 'expired' | 'cancelled'
    }, options?: CallOptions): Promise<{
      readonly data: readonly Approval[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an approval. */
    get(input: {
      /** Id of the approval. */
      readonly id: string
    }, options?: CallOptions): Promise<Approval>
    /** Decide an approval. */
    decide(input: {
      /** Id of the approval. */
      readonly id: string
      readonly approved: boolean
      /** Fields of the form of the approval. */
      readonly form?: unknown
      readonly comment?: string
    }, options?: CallOptions): Promise<Approval>
  }
  readonly invocations: {
    /** List the runs of a function, or of all functions, newest first. */
    list(input?: {
      /** Id of the function, or its name. */
      readonly function?: string
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      readonly status?: 'queued' | 'running' | 'completed' | 'failed'
      readonly trigger?: 'api' | 'http' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event' | 'redrive'
      readonly version?: number
      readonly dead_letter?: boolean
      /** Only runs created at this time or later. */
      readonly since?: string
      /** Only runs created before this time. */
      readonly until?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionRun[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a run of a function; an asynchronous run has its input and result. */
    get(input: {
      /** Id of the run. */
      readonly run: string
    }, options?: CallOptions): Promise<FunctionRunWithResult>
    /** List the log lines of a run of a function. */
    logs(input: {
      /** Id of the run. */
      readonly run: string
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionLogLine[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Stream the past and future log lines of a run as server-sent events, until it ends. */
    watchLogs(input: {
      /** Id of the run. */
      readonly run: string
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
    /** Read an asynchronous invocation that this credential has started, and its result. */
    getOperation(input: {
      /** Id of the run, without `run_`. */
      readonly id: string
      readonly prefer?: string
    }, options?: CallOptions): Promise<FunctionRunOperation>
  }
  readonly functionVersions: {
    /** List the stored versions of a function, newest first. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionVersion[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a version of a function with its source. */
    get(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      readonly version: number
    }, options?: CallOptions): Promise<FunctionVersionWithSource>
    /** Activate a version of a function, such as an earlier one; the next deployment activates its own. */
    activate(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      readonly version: number
    }, options?: CallOptions): Promise<Function>
  }
  readonly functionAliases: {
    /** List the aliases of a function. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionAlias[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an alias of a function. */
    get(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly name: string
    }, options?: CallOptions): Promise<FunctionAlias>
    /** Set an alias to a version of a function, or to several by weight; runs that have started keep their version. */
    set(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly name: string
      readonly version?: number
      readonly versions?: readonly WeightedVersion[]
    }, options?: CallOptions): Promise<FunctionAlias>
    /** Delete an alias of a function; its versions are kept. */
    delete(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly name: string
    }, options?: CallOptions): Promise<DeletedName>
  }
  readonly functionRuns: {
    /** List the runs of a function, newest first. */
    list(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      readonly status?: 'queued' | 'running' | 'completed' | 'failed'
      readonly trigger?: 'api' | 'http' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event' | 'redrive'
      readonly version?: number
      readonly dead_letter?: boolean
      /** Only runs created at this time or later. */
      readonly since?: string
      /** Only runs created before this time. */
      readonly until?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionRun[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a run of a function; an asynchronous run has its input and result. */
    get(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Id of the run. */
      readonly run: string
    }, options?: CallOptions): Promise<FunctionRunWithResult>
    /** Delete an ended run with its log lines. */
    delete(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Id of the run. */
      readonly run: string
    }, options?: CallOptions): Promise<DeletedFunctionRun>
    /** List the log lines of a run of a function. */
    logs(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Id of the run. */
      readonly run: string
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionLogLine[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Stream the past and future log lines of a run as server-sent events, until it ends. */
    watchLogs(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Id of the run. */
      readonly run: string
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
    /** Run a dead letter again, with its input and the rights of its caller. */
    redrive(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** Id of the run. */
      readonly run: string
    }, options?: CallOptions): Promise<FunctionRun>
    /** Run the oldest dead letters of a function again, up to 100. */
    redriveAll(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
      /** `next` of the previous call. */
      readonly after?: string
    }, options?: CallOptions): Promise<RedrivenRuns>
  }
  readonly functionTriggers: {
    /** List the schedule and the event trigger of a function, with what they have started. */
    list(input: {
      /** Id of the function, or its name if the credential names a workspace. */
      readonly id: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FunctionTrigger[]
    }>
  }
  readonly flowVersions: {
    /** Publish the draft of a flow as the next version. */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
    }, options?: CallOptions): Promise<PublishedFlowVersion>
    /** List published versions of a flow, oldest first, without their sources. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FlowVersionSummary[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a published version of a flow. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      readonly version: number
    }, options?: CallOptions): Promise<FlowVersion>
  }
  readonly flowAliases: {
    /** List the aliases of a flow. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FlowAlias[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an alias of a flow. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly name: string
    }, options?: CallOptions): Promise<FlowAlias>
    /** Set an alias to a version of a flow, or to several by weight; running executions keep their version. */
    set(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly name: string
      readonly version?: number
      readonly versions?: readonly WeightedVersion[]
    }, options?: CallOptions): Promise<FlowAlias>
    /** Delete an alias of a flow; its versions are kept. */
    delete(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly name: string
    }, options?: CallOptions): Promise<DeletedName>
  }
  readonly flowSecrets: {
    /** Store or replace a secret for flows and functions; later calls and runs use the new value. */
    set(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`. */
      readonly name: string
      /** Value of the secret: a string of at least 8 characters, or an object or list of strings. */
      readonly value: unknown
    }, options?: CallOptions): Promise<FlowSecret>
    /** Delete a secret; the response names the functions and the flows (latest version) that use it. */
    delete(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`. */
      readonly name: string
    }, options?: CallOptions): Promise<DeletedFlowSecret>
    /** List the secrets of flows and functions by name, without values. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly FlowSecret[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
  }
  readonly executions: {
    /** Start an execution of a published version of a flow. */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow: string
      readonly prefer?: string
      readonly input?: unknown
      readonly version?: number
      /** Name of the alias, unique in the flow or function, such as `production`. */
      readonly alias?: string
      /** Your own key of the execution, such as an order number. The key is not encrypted: operators can search by it. */
      readonly correlation_key?: string
    }, options?: CallOptions): Promise<Execution>
    /** Read an execution and its steps. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
    }, options?: CallOptions): Promise<Execution>
    /** List the executions of a workspace, newest first. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Values of which a record must have one; in a query, separated by commas. */
      readonly status?: readonly ('pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed')[]
      /** Value of `error.type` in the executions to list: the URI, or the short name of a standard type, such as `communication`. */
      readonly error_type?: string
      /** Version of the flow that `flow` names. */
      readonly version?: number
      readonly trigger?: 'manual' | 'schedule' | 'webhook' | 'event' | 'flow' | 'rerun'
      /** Id of the trigger. */
      readonly trigger_id?: string
      /** Your own key of the execution, such as an order number. The key is not encrypted: operators can search by it. */
      readonly correlation_key?: string
      /** Only executions that were compensated: completely (`completed`), or with failures (`failed`). */
      readonly compensation?: 'completed' | 'failed'
      /** Only executions created at this time or later. */
      readonly started_after?: string
      /** Only executions created before this time. */
      readonly started_before?: string
      /** Order by `started_at`. Default: `desc`, newest first. */
      readonly order?: 'asc' | 'desc'
      /** Id of the flow, or its name. */
      readonly flow?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly ExecutionSummary[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Stream the past and future events of an execution as server-sent events (CloudEvents 1.0). */
    watch(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
    /** Subscribe to the changes of status of all executions, as server-sent events (CloudEvents 1.0). */
    subscribe(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Position to continue after: the last `id`. Default: now. */
      readonly last_event_id?: string
    }, options?: StreamOptions): AsyncGenerator<Frame>
    /** Send a CloudEvent to an execution. */
    signal(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Event to send (CloudEvents 1.0). A repeated event (same `source` and `id`) has no effect. */
      readonly event: {
        readonly type: string
        readonly source?: string
        readonly id?: string
      }
    }, options?: CallOptions): Promise<SignalledExecution>
    /** Decide an approval that an execution waits for. */
    approve(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Step to act on: a task by name, or a single step by `pointer#iteration`. Optional if only one step waits. */
      readonly step?: string
      readonly approved: boolean
      readonly comment?: string
      /** Fields of the form of the approval. */
      readonly form?: unknown
    }, options?: CallOptions): Promise<Execution>
    /** Retry a held step (`onFault: hold`). */
    retryStep(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Step to act on: a task by name, or a single step by `pointer#iteration`. Optional if only one step waits. */
      readonly step?: string
    }, options?: CallOptions): Promise<Execution>
    /** Skip a held step and continue with a given output, or end a `wait` early. */
    skipStep(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Step to act on: a task by name, or a single step by `pointer#iteration`. Optional if only one step waits. */
      readonly step?: string
      readonly output?: unknown
    }, options?: CallOptions): Promise<Execution>
    /** Pause an execution: running calls finish, nothing else starts, and its timeouts stop. */
    pause(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      readonly reason?: string
    }, options?: CallOptions): Promise<Execution>
    /** Resume a paused execution. */
    resume(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
    }, options?: CallOptions): Promise<Execution>
    /** Patch the data of an execution that is paused or has a held step. */
    patchData(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Merge patch (RFC 7396) of `$context`. */
      readonly context?: unknown
      /** Step to act on: a task by name, or a single step by `pointer#iteration`. Optional if only one step waits. */
      readonly step?: string
      /** Input of a held step for its next attempt. */
      readonly input?: unknown
    }, options?: CallOptions): Promise<Execution>
    /** Cancel an execution; completed tasks with a compensation are undone first. */
    cancel(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
    }, options?: CallOptions): Promise<Execution>
    /** Rerun an ended execution, from the start or from a step. */
    rerun(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Step to rerun from: a task by name or pointer (its first step), or a single step by `pointer#iteration`; results from before it started are reused. `failed`: every recorded result is reused, except that of the step that faulted. Default: the start. */
      readonly from?: string
      /** Input of the rerun. Default: the input of the execution. */
      readonly input?: unknown
      /** Version of the flow to run. Default: the version of the execution. */
      readonly version?: number
      /** True if only the plan is returned, with status 200. Default: `false`. */
      readonly dry_run?: boolean
    }, options?: CallOptions): Promise<ExecutionRerun>
  }
  readonly flowExecutions: {
    /** List the executions of a flow, newest first. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Values of which a record must have one; in a query, separated by commas. */
      readonly status?: readonly ('pending' | 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed')[]
      /** Value of `error.type` in the executions to list: the URI, or the short name of a standard type, such as `communication`. */
      readonly error_type?: string
      /** Version of the flow that `flow` names. */
      readonly version?: number
      readonly trigger?: 'manual' | 'schedule' | 'webhook' | 'event' | 'flow' | 'rerun'
      /** Id of the trigger. */
      readonly trigger_id?: string
      /** Your own key of the execution, such as an order number. The key is not encrypted: operators can search by it. */
      readonly correlation_key?: string
      /** Only executions that were compensated: completely (`completed`), or with failures (`failed`). */
      readonly compensation?: 'completed' | 'failed'
      /** Only executions created at this time or later. */
      readonly started_after?: string
      /** Only executions created before this time. */
      readonly started_before?: string
      /** Order by `started_at`. Default: `desc`, newest first. */
      readonly order?: 'asc' | 'desc'
      /** Id of the flow, or its name. */
      readonly flow: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly ExecutionSummary[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
  }
  readonly executionSteps: {
    /** List the steps of an execution, in the order in which they started. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      readonly status?: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
      /** Task whose steps are listed: its name or pointer. */
      readonly task?: string
      readonly iteration?: number
    }, options?: CallOptions): Promise<{
      readonly data: readonly ExecutionStep[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a step with its input, arguments and output; secrets are masked. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the execution. */
      readonly id: string
      /** Number of the step within its execution, in the order in which steps started. */
      readonly step: string
    }, options?: CallOptions): Promise<ExecutionStepWithData>
  }
  readonly approvals: {
    /** List approvals, by default those that are open. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** True if only the approvals that the caller may decide now are listed. Default: `false`. */
      readonly mine?: boolean
      readonly status?: 'open' | 'approved' | 'rejected' | 'expired' | 'cancelled'
    }, options?: CallOptions): Promise<{
      readonly data: readonly Approval[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read an approval. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the approval. */
      readonly id: string
    }, options?: CallOptions): Promise<Approval>
    /** Decide an approval. */
    decide(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the approval. */
      readonly id: string
      readonly approved: boolean
      /** Fields of the form of the approval. */
      readonly form?: unknown
      readonly comment?: string
    }, options?: CallOptions): Promise<Approval>
  }
  readonly schedules: {
    /** List the schedules of a workspace, with their next start times. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the flow, or its name. */
      readonly flow?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly ListedSchedule[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a schedule with its next start times. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the schedule. */
      readonly id: string
    }, options?: CallOptions): Promise<ScheduleWithStatus>
    /** Pause a schedule: it starts no executions until it is resumed, even if new versions are published. */
    pause(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the schedule. */
      readonly id: string
      /** Reason for the change. */
      readonly note?: string
    }, options?: CallOptions): Promise<Schedule>
    /** Resume a schedule; starts that were due while it was paused are skipped. */
    resume(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the schedule. */
      readonly id: string
      /** Reason for the change. */
      readonly note?: string
    }, options?: CallOptions): Promise<Schedule>
    /** Start an execution of the schedule now, even if it is paused or others are running. */
    trigger(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the schedule. */
      readonly id: string
    }, options?: CallOptions): Promise<Execution>
  }
  readonly triggers: {
    /** List the triggers of a workspace: schedules, webhooks, events. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly Trigger[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Rotate the secret of a webhook; the previous one stays valid for a day. */
    rotateSecret(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the trigger. */
      readonly id: string
      /** Secret that the sender has issued. Default: a newly generated secret. */
      readonly secret?: string
    }, options?: CallOptions): Promise<RotatedTriggerSecret>
    /** Pause a webhook or an event trigger: deliveries are refused, and events are skipped. */
    pause(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the trigger. */
      readonly id: string
    }, options?: CallOptions): Promise<Trigger>
    /** Resume a webhook or an event trigger. */
    resume(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the trigger. */
      readonly id: string
    }, options?: CallOptions): Promise<Trigger>
    /** Test which filters of an event trigger accept an event, without starting an execution. */
    test(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the trigger. */
      readonly id: string
      /** CloudEvent with `type`, and the `data` and attributes that the filters read. */
      readonly event: {
        readonly type: string
      }
    }, options?: CallOptions): Promise<TriggerTest>
  }
  readonly mcpServers: {
    /** List hosted MCP servers. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly McpServer[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Create a hosted MCP server (a draft). */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly slug?: string
      readonly description?: string
      /** Issuer of the tokens for the server: an `issuer` of OIDC_ISSUERS that serves the tenant. `null`: the platform. Default: `null`. */
      readonly authorization_server?: string | null
      /** Tools that clients see. `granted`: those that their token allows; `grantable`: also those whose scope they may obtain; `auto`: `grantable` if a person uses the client, `granted` otherwise. */
      readonly list?: 'auto' | 'granted' | 'grantable'
      /** Response to a call without the scope. `http`: 403 with a challenge; `tool_error`: a tool error; `auto`: a challenge, unless the client cannot use it. */
      readonly challenge?: 'auto' | 'http' | 'tool_error'
      /** Tool search: clients see the pinned tools, `tool_search` and `tool_call` instead of all tools. `auto`: on above 40 tools. */
      readonly search?: 'auto' | 'on' | 'off'
      /** Form in which MCP clients receive results of tools with an output schema: `structured` content, `text`, or `both`, since some hosts show their model only one of them. Default: `both`. */
      readonly results?: 'both' | 'text' | 'structured'
    }, options?: CallOptions): Promise<McpServer>
    /** Read a hosted MCP server with its draft. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      readonly if_none_match?: string
    }, options?: CallOptions): Promise<McpServer>
    /** Update a hosted MCP server: name, description, settings or suspension; its slug does not change. */
    update(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name?: string
      readonly description?: string
      /** Issuer of the tokens for the server: an `issuer` of OIDC_ISSUERS that serves the tenant. `null`: the platform. Default: `null`. */
      readonly authorization_server?: string | null
      /** Tools that clients see. `granted`: those that their token allows; `grantable`: also those whose scope they may obtain; `auto`: `grantable` if a person uses the client, `granted` otherwise. */
      readonly list?: 'auto' | 'granted' | 'grantable'
      /** Response to a call without the scope. `http`: 403 with a challenge; `tool_error`: a tool error; `auto`: a challenge, unless the client cannot use it. */
      readonly challenge?: 'auto' | 'http' | 'tool_error'
      /** Tool search: clients see the pinned tools, `tool_search` and `tool_call` instead of all tools. `auto`: on above 40 tools. */
      readonly search?: 'auto' | 'on' | 'off'
      /** Form in which MCP clients receive results of tools with an output schema: `structured` content, `text`, or `both`, since some hosts show their model only one of them. Default: `both`. */
      readonly results?: 'both' | 'text' | 'structured'
      /** True if the server is suspended, so that its MCP endpoint does not serve clients. */
      readonly suspended?: boolean
    }, options?: CallOptions): Promise<McpServer>
    /** Delete a hosted MCP server with its versions and clients; the log of its calls is kept. */
    delete(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
    }, options?: CallOptions): Promise<Deleted>
    /** Preview the draft of a hosted MCP server: the tools as models see them, their size, and the changes of publishing it. */
    preview(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
    }, options?: CallOptions): Promise<McpPreview>
    /** Call a tool of the active version of a hosted MCP server, with the same checks as at the MCP endpoint. */
    call(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      readonly x_request_id?: string
      /** Chain depth of the call, set by requests of tool sources. */
      readonly tenon_chain_depth?: string
      readonly tool: string
      /** Arguments of the tool. `null`: none. */
      readonly arguments?: Readonly<Record<string, unknown>> | null
    }, options?: CallOptions): Promise<McpCallResult>
  }
  readonly mcpCandidates: {
    /** List candidates for tools: collections, buckets, functions, published flows, events, sources. */
    list(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly McpCandidate[]
    }>
  }
  readonly mcpCuration: {
    /** Replace the draft of a hosted MCP server: its tools with their names, texts, scopes and groups; prompts; resources. */
    replace(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** ETag that the curation must have to be changed (`If-Match`). */
      readonly if_match?: string
      readonly tools: Readonly<Record<string, {
        readonly enabled: boolean
        /** True if the tool is in `tools/list` even if clients use tool search. */
        readonly pinned?: boolean
        readonly name?: string
        readonly title?: string
        readonly description?: string
        /** Last part of the OAuth scope of the tool. */
        readonly scope?: string
        /** Changes to arguments, by name. */
        readonly arguments?: Readonly<Record<string, {
          /** Value of the argument in every call; clients do not see the argument. */
          readonly fixed?: unknown
          /** True if clients do not see the argument and cannot set it. */
          readonly hidden?: boolean
          /** Value in calls without the argument. */
          readonly default?: unknown
          readonly description?: string
          /** Keywords that restrict the values: enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern, minItems, maxItems. They cannot allow more than the source. */
          readonly schema?: Readonly<Record<string, unknown>>
        }>>
        /** Arguments of example calls, shown to models. */
        readonly examples?: readonly Readonly<Record<string, unknown>>[]
        /** Limits on calls of the tool. */
        readonly limits?: {
          readonly result_bytes?: number
          readonly timeout_seconds?: number
          /** Maximum number of seconds that a call of a flow waits for its output. */
          readonly wait_seconds?: number
          /** Maximum number of calls per minute by all callers together; the same number may come in one burst. */
          readonly calls_per_minute?: number
        }
        /** Annotations of the tool, which may only be stricter than those of the source. */
        readonly annotations?: {
          readonly readOnlyHint?: boolean
          readonly destructiveHint?: boolean
          readonly idempotentHint?: boolean
          readonly openWorldHint?: boolean
        }
      }>>
      /** Groups of tools, in the order in which they are shown. */
      readonly groups?: readonly {
        readonly name: string
        readonly title: string
        readonly description?: string
        /** Candidates, or names of tools. A tool is in one group at most. */
        readonly tools: readonly string[]
      }[]
      readonly prompts?: Readonly<Record<string, {
        readonly title?: string
        readonly description?: string
        readonly arguments?: readonly {
          readonly name: string
          readonly description?: string
          readonly required?: boolean
          /** Values that clients offer as completions; other values are accepted, too. */
          readonly values?: readonly string[]
        }[]
        /** Messages of the prompt; `{{name}}` in a text stands for an argument. */
        readonly messages: readonly ({
          readonly role: 'user' | 'assistant'
          readonly content: {
            readonly type: 'text'
            readonly text: string
          } | {
            readonly type: 'image' | 'audio'
            readonly data: string
            readonly mimeType: string
          } | {
            readonly type: 'resource_link'
            readonly uri: string
            readonly name: string
            readonly description?: string
            readonly mimeType?: string
            /** Size in bytes. */
            readonly size?: number
          } | {
            readonly type: 'resource'
            readonly resource: {
              readonly uri: string
              readonly mimeType?: string
              readonly text: string
            } | {
              readonly uri: string
              readonly mimeType?: string
              readonly blob: string
            }
          }
        })[]
      }>>
      readonly resources?: Readonly<Record<string, {
        /** URI of the resource; with names in braces, a template: `guide://products/{id}`. `tenon:` and `tenon-…:` are reserved. */
        readonly uri: string
        readonly title?: string
        readonly description?: string
        readonly mime_type?: string
        readonly text?: string
        /** Content in base64, instead of `text`. */
        readonly blob?: string
      }>>
    }, options?: CallOptions): Promise<McpServer>
  }
  readonly mcpVersions: {
    /** Publish the draft of a hosted MCP server as the next version; it is active at once unless it needs approval, as tools on data do that a developer publishes. */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** Classes that the request approves. `breaking`: changes that may break clients. Wider scopes still need an approval. */
      readonly accept?: readonly 'breaking'[]
    }, options?: CallOptions): Promise<McpPublication>
    /** List published versions of a hosted MCP server, oldest first. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly McpVersion[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a published version of a hosted MCP server with its manifest and signature. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      readonly version: number
    }, options?: CallOptions): Promise<McpVersionWithManifest>
    /** Activate a published version; use it to roll back. */
    activate(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      readonly version: number
    }, options?: CallOptions): Promise<McpVersion>
    /** Approve a version of a hosted MCP server that needs approval, and activate it; people must consent again to wider scopes. */
    approve(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      readonly version: number
    }, options?: CallOptions): Promise<McpVersion>
  }
  readonly mcpCalls: {
    /** List the calls of a hosted MCP server, newest first, including refused calls. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** Order by time. Default: `desc`, newest first. */
      readonly order?: 'asc' | 'desc'
      readonly tool?: string
      readonly outcome?: 'ok' | 'tool_error' | 'rpc_error' | 'denied'
      /** Id of the user or client. */
      readonly principal?: string
      /** Id of the client. */
      readonly client_id?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly after?: string
      /** Time in UTC with milliseconds (RFC 3339). */
      readonly before?: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly McpCall[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Verify the chain of the calls of a hosted MCP server, up to 10,000 entries per call. */
    verify(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** `next` of the previous call. */
      readonly after?: number
      /** Head that was recorded elsewhere, as `<seq>:<hash>`; it must still be in the chain. One that retention has removed since is refused with `validation_failed`. */
      readonly anchor?: string
    }, options?: CallOptions): Promise<ChainVerification>
  }
  readonly mcpClients: {
    /** Create a client for an agent; only this response contains its secret. */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** Name on one line, without invisible characters or characters that change the text direction. */
      readonly name: string
      readonly scopes?: readonly string[]
    }, options?: CallOptions): Promise<McpClientWithSecret>
    /** List the clients of a hosted MCP server. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly McpClient[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Delete a client; its tokens become invalid within 5 s. */
    delete(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the MCP server, or its slug. */
      readonly server: string
      /** Id of the client. */
      readonly client: string
    }, options?: CallOptions): Promise<DeletedClient>
  }
  readonly mcpSources: {
    /** Register an OpenAPI document, another MCP server or a container image (experimental) as a source of tools, and pin its definitions. */
    create(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Slug of at most 40 lower-case letters, digits and inner hyphens. */
      readonly name: string
      readonly kind: 'openapi' | 'mcp' | 'image'
      /** URL without credentials. */
      readonly url?: string
      /** OpenAPI 3.0 or 3.1, as an object, or as text in JSON or YAML. Default: the document at `url`. */
      readonly document?: string | Readonly<Record<string, unknown>>
      /** URL without credentials. */
      readonly base_url?: string
      /** Headers of every request, by name. Tools cannot replace them. */
      readonly headers?: Readonly<Record<string, {
        /** Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`. */
        readonly secret: string
        /** Text in front of the secret, such as `Bearer `. */
        readonly prefix?: string
      } | {
        readonly value: string
      }>>
      /** Image for the kind `image`: `<registry>/<name>@sha256:<digest>`, without a tag. */
      readonly image?: string
      /** Arguments after the entry point of the image. */
      readonly command_args?: readonly string[]
      /** Environment variables of the container, by name. */
      readonly env?: Readonly<Record<string, {
        /** Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`. */
        readonly secret: string
      } | {
        readonly value: string
      }>>
      readonly limits?: {
        /** Memory in MiB. Default: 256. */
        readonly memory_mb?: number
        /** Number of CPU cores. Default: 0.5. */
        readonly cpus?: number
        /** Number of processes and threads. Default: 64. */
        readonly pids?: number
        /** Seconds until a call times out, including the start of the container. Default: 20. */
        readonly timeout_seconds?: number
      }
    }, options?: CallOptions): Promise<McpSource>
    /** List the sources of tools outside the platform. */
    list(input: {
      /** Items per page. Default: 50. */
      readonly page_size?: number
      /** `page.next` of the previous page. */
      readonly page_after?: string
      /** Id of the workspace. */
      readonly ws: string
    }, options?: CallOptions): Promise<{
      readonly data: readonly McpSource[]
      readonly page: {
        readonly size: number
        readonly next: string | null
        readonly has_more: boolean
      }
    }>
    /** Read a source of tools. */
    get(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the source of tools, or its name. */
      readonly source: string
    }, options?: CallOptions): Promise<McpSource>
    /** Delete a source that no active version of a server uses. */
    delete(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the source of tools, or its name. */
      readonly source: string
    }, options?: CallOptions): Promise<Deleted>
    /** Refresh the definitions of a source; definitions that differ are pinned once they are accepted. */
    refresh(input: {
      /** Id of the workspace. */
      readonly ws: string
      /** Id of the source of tools, or its name. */
      readonly source: string
      /** OpenAPI 3.0 or 3.1, as an object, or as text in JSON or YAML. Default: the document at `url`. */
      readonly document?: string | Readonly<Record<string, unknown>>
      /** Reviewed `drift.hash`; the definitions are pinned if they still have it. */
      readonly accept?: string
    }, options?: CallOptions): Promise<McpSource>
  }
}

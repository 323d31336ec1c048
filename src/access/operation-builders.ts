/** Builders of operations by the scope that they run in, and schemas that features share. */

import Type, { type Static, type TObject, type TSchema } from 'typebox'
import { component } from '../core/components/component.ts'
import { EXAMPLE_ID } from '../core/components/examples.ts'
import { type IdPrefix, idPattern } from '../core/ids.ts'
import { CORE_LIMITS } from '../core/limits.ts'
import { type OperationSpec, operation } from '../core/operation.ts'
import { VIEWERS } from '../core/policy.ts'
import { VISIBLE_PATTERN } from '../core/text/visible-text.ts'
import { ACCESS_LIMITS } from './limits.ts'
import { withPayloadAccess } from './payload-access.ts'
import type { AdminScope, CallerScope, WorkspaceScope } from './scope.ts'

/**
 * An operation on the structure of tenants, within the bounds of the caller's credential: its statements see the tenant or
 * workspace of an admin, and everything of an operator.
 * @example
 * ```ts
 * const renameWorkspace = adminOperation({
 *   name: 'workspace.rename',
 *   summary: 'Rename a workspace',
 *   roles: ADMINS,
 *   input: Input({ id: Ref('workspace'), name: Name }),
 *   output: Type.Object({ id: Id('ws'), name: Name }),
 *   http: { method: 'PATCH', path: '/v1/workspaces/{id}', body: '*' },
 *   run: (scope, { id, name }) =>
 *     findRow(scope, 'workspace', sql`update workspaces set name = ${name} where id = ${id} returning id, name`),
 * })
 * ```
 */
export const adminOperation = <I extends TObject, O extends TSchema>(spec: OperationSpec<AdminScope, I, O>) =>
  operation('admin', withPayloadAccess(spec))

/**
 * An operation inside one workspace. Admins name it by the input field `ws`; keys carry it.
 * @example
 * ```ts
 * const listNotes = workspaceOperation({
 *   name: 'note.list',
 *   summary: 'List the notes of the workspace',
 *   roles: ['service'],
 *   input: Input(PageInput),
 *   output: PageOf(Type.Object({ id: Type.String(), title: Name })),
 *   http: { method: 'GET', path: '/v1/notes' },
 *   run: (scope, input) => listPage<Note>(scope, input, sql`select id, title from notes`),
 * })
 * ```
 */
export const workspaceOperation = <I extends TObject, O extends TSchema>(
  spec: OperationSpec<WorkspaceScope, I, O>,
) => operation('workspace', withPayloadAccess(spec))

/**
 * An operation on the caller itself, with any credential. Its scope knows the caller, and reads nothing.
 * @example
 * ```ts
 * const getSubject = callerOperation({
 *   name: 'subject.get',
 *   summary: 'Read your subject',
 *   roles: EVERYBODY,
 *   input: Input({}),
 *   output: Type.Object({ subject: Type.String() }),
 *   http: { method: 'GET', path: '/v1/subject' },
 *   run: async ({ principal }) => ({ subject: principal.subject }),
 * })
 * ```
 */
export const callerOperation = <I extends TObject, O extends TSchema>(
  spec: OperationSpec<CallerScope, I, O>,
) => operation('caller', spec)

/** A closed object: undeclared members are errors. */
export const Input = <P extends Type.TProperties>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })

/** A reference to a record. Any text is valid: an id of another form is not found. */
export const Ref = (what: string) =>
  Type.String({ minLength: 1, maxLength: 200, description: `Id of the ${what}.` })
/** The condition of a change to something that {@link contentTag} identifies. @param what in the plural or as a mass */
export const IfMatch = (what: string) =>
  Type.String({
    maxLength: 1_000,
    description: `ETag that the ${what} must have to be changed (\`If-Match\`).`,
  })
export const Id = (prefix: IdPrefix) => Type.String({ pattern: idPattern(prefix) })

/** Keys of a `Type.Record`. Its default pattern `^.*$` would not check values whose key has a line break. */
export const AnyName = Type.String({ pattern: '^' })

export const Name = Type.String({
  minLength: 1,
  maxLength: CORE_LIMITS.nameCharsMax,
  pattern: VISIBLE_PATTERN,
  description: 'Name on one line, without invisible characters or characters that change the text direction.',
})
export const Slug = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$',
  description: 'Slug of at most 40 lower-case letters, digits and inner hyphens.',
})
/** Environment of a workspace that names none; the column of the table says why (0014-environments.sql). */
export const ENVIRONMENT_DEFAULT = 'production'

export const Environment = Type.Enum(['development', 'production'], {
  description:
    'Environment of the workspace. Tools that apply each saved file of a project at once refuse `production`.',
})
export type Environment = Static<typeof Environment>

export const Time = Type.String({
  format: 'date-time',
  description: 'Time in UTC with milliseconds (RFC 3339).',
})
export const OptionalTime = Type.Union([Time, Type.Null()])

/** Confirms that a record was deleted, by its id or its name. */
export const Deleted = component('Deleted', Type.Object({ id: Type.String(), deleted: Type.Literal(true) }), {
  id: EXAMPLE_ID.schema,
  deleted: true,
})
export const DeletedName = component(
  'DeletedName',
  Type.Object({ name: Type.String(), deleted: Type.Literal(true) }),
  { name: 'production', deleted: true },
)
export const DeletedClient = component(
  'DeletedClient',
  Type.Object({ client_id: Type.String(), deleted: Type.Literal(true) }),
  { client_id: EXAMPLE_ID.client, deleted: true },
)

/** A filter of a list that takes one value or several; in a query they stand in one parameter, with commas between. */
export const AnyOf = <const V extends readonly string[]>(values: V) =>
  Type.Optional(
    Type.Unsafe<V[number][]>(
      Type.Array(Type.Enum([...values]), {
        minItems: 1,
        maxItems: values.length,
        description: 'Values of which a record must have one; in a query, separated by commas.',
      }),
    ),
  )

/** Seconds to wait for the end of the execution (`Prefer: wait=N`). */
export const Wait = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: ACCESS_LIMITS.preferWaitSecondsMax,
    description: 'Seconds to wait for the end of the work (`Prefer: wait=N`). Default: 0.',
  }),
)

const HOLDER_ROLES = [...VIEWERS, 'service'] as const

/** Roles of accounts and machine clients. */
export const HolderRole = Type.Union(HOLDER_ROLES.map((role) => Type.Literal(role)))
/** Tenant and workspace of an account or client; by default the caller's. */
export const Holder = {
  tenant_id: Type.Optional(Ref('tenant')),
  workspace_id: Type.Optional(Ref('workspace')),
}

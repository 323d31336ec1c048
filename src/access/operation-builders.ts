/** The three kinds of operation, typed by the scope they run in; and the schema pieces that slices share. */

import Type, { type TObject, type TSchema } from 'typebox'
import { type IdPrefix, idPattern } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { type OperationSpec, operation } from '../core/operation.ts'
import { VISIBLE_PATTERN } from '../core/visible-text.ts'
import type { AdminScope, CallerScope, WorkspaceScope } from './scope.ts'

/** An operation on the structure of tenants: what the caller sees is bounded by its credential alone. */
export const adminOperation = <I extends TObject, O extends TSchema>(spec: OperationSpec<AdminScope, I, O>) =>
  operation('admin', spec)

/** An operation inside one workspace. Admins name it by the input field `ws`; keys carry it. */
export const workspaceOperation = <I extends TObject, O extends TSchema>(
  spec: OperationSpec<WorkspaceScope, I, O>,
) => operation('workspace', spec)

/** An operation that reaches nothing but its caller, whoever that is. */
export const callerOperation = <I extends TObject, O extends TSchema>(
  spec: OperationSpec<CallerScope, I, O>,
) => operation('caller', spec)

/** Closed: a member that is not declared is a fault of the caller, not something to ignore. */
export const Input = <P extends Type.TProperties>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })

/** A reference to a record. Any text is taken: an id of another form is simply not found. */
export const Ref = (what: string) =>
  Type.String({ minLength: 1, maxLength: 200, description: `Id of a ${what}.` })
export const Id = (prefix: IdPrefix) => Type.String({ pattern: idPattern(prefix) })

/** Names of a `Type.Record`, whose own `^.*$` lets a name with a line break pass, and its value unchecked. */
export const AnyName = Type.String({ pattern: '^' })

export const Name = Type.String({
  minLength: 1,
  maxLength: LIMITS.nameCharsMax,
  pattern: VISIBLE_PATTERN,
  description: 'One line, without invisible characters or ones that change the direction of reading.',
})
export const Slug = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$',
  description: 'Lower-case letters, digits and inner hyphens, at most 40.',
})
export const Time = Type.String({ format: 'date-time', description: 'RFC 3339, UTC, milliseconds.' })
export const OptionalTime = Type.Union([Time, Type.Null()])

/** Seconds that the caller is willing to wait for the end (`Prefer: wait=N`). */
export const Wait = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: LIMITS.preferWaitSecondsMax,
    description: '`Prefer: wait=N`, seconds.',
  }),
)

/** What a person or a machine may be in its tokens. */
export const HolderRole = Type.Union(
  (['operator', 'tenant_admin', 'workspace_admin', 'service'] as const).map((role) => Type.Literal(role)),
)
/** Where it belongs; what is left out, the caller's tenant. */
export const Holder = {
  tenant_id: Type.Optional(Ref('tenant')),
  workspace_id: Type.Optional(Ref('workspace')),
}

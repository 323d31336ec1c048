/** Checks the inputs that a flow writes out for functions (`call: function.invoke`) against the schemas that these export. */

import Format from 'typebox/format'
import { didYouMean } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import type { SchemaError } from '../../../flows-dsl/json-schema/validate.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { checkBudget, errorsWithin, TOO_COSTLY } from '../schema-errors.ts'
import type { Tasks } from '../threads/run-in-thread.ts'
import type { Diagnostic } from './definitions.ts'

type FunctionReference = NonNullable<ReturnType<Tasks['check']>['references']>['functions'][number]

interface VersionRow {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly active: boolean
  readonly schema: Readonly<Record<string, unknown>>
}

/**
 * A warning per member that the function does not take, since a later deployment may change its schema: of the version that the call
 * names, else the active one. All checks of a flow together take at most the steps of one check.
 */
export async function wrongInputs(
  scope: WorkspaceScope,
  references: readonly FunctionReference[],
): Promise<Diagnostic[]> {
  if (references.length === 0) return []
  const named = textArray([...new Set(references.map(({ name }) => name))])
  const versions = textArray([...new Set(references.map(({ version }) => String(version ?? '')))])
  const rows = await scope.rows<VersionRow>(sql`
    select f.id, f.name, v.version, v.version = f.active_version as active, v.input_schema as schema
    from functions f join function_versions v
      on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id
    where (f.id = any(${named}::text[]) or f.name = any(${named}::text[])) and v.input_schema is not null
      and (v.version = f.active_version or v.version::text = any(${versions}::text[]))`)
  const budget = checkBudget()
  const warnings: Diagnostic[] = []
  for (const reference of references) {
    const called = rows.find((row) => isCalled(row, reference))
    if (called === undefined) continue
    const errors = errorsWithin(called.schema, reference.input, budget, Format.Test)
    if (errors.includes(TOO_COSTLY) || warnings.length >= CORE_LIMITS.diagnosticsReturnedMax) break
    warnings.push(...errors.map((error) => warningOf(reference, called, error)))
  }
  return warnings
    .slice(0, CORE_LIMITS.diagnosticsReturnedMax)
    .toSorted((a, b) => a.line - b.line || a.column - b.column)
}

const isCalled = (row: VersionRow, { name, version }: FunctionReference): boolean =>
  (row.id === name || row.name === name) && (version === undefined ? row.active : row.version === version)

function warningOf(
  { name, at }: FunctionReference,
  { version, schema }: VersionRow,
  { pointer, message, keyword, missing }: SchemaError,
): Diagnostic {
  const { members, ...whole } = at
  const [, first] = pointer.split('/')
  const { line, column } = members.find((one) => one.pointer === `${whole.pointer}/${first}`) ?? whole
  const place = { line, column, pointer: `${whole.pointer}${pointer}` }
  const by = `The input schema of \`${name}\` (version ${version}) refuses the call`
  const where = pointer === '' ? 'the input' : pointer
  if (missing !== undefined)
    return { code: 'missing_argument', message: `${by}: ${where} has no \`${missing}\`.`, ...place }
  const fault = { message: `${by}: ${where} ${message}.`, ...place }
  if (keyword !== 'additionalProperties') return { code: 'value_invalid', ...fault }
  const known = Object.keys(Object(schema['properties']))
  const hint = pointer.lastIndexOf('/') === 0 ? didYouMean(first ?? '', known) : undefined
  return { code: 'unknown_argument', ...fault, ...(hint !== undefined && { hint }) }
}

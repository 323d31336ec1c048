/** Checks the references of a definition to its workspace: secrets, flows, MCP tools, and inputs of functions. */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import type { Tasks } from '../threads/run-in-thread.ts'
import { type Diagnostic, FLOWS } from './definitions.ts'
import { wrongInputs } from './function-references.ts'
import { wrongToolCalls } from './tool-references.ts'

/** The secrets, flows, tools and functions that a definition names, each with its location. */
type FlowReferences = NonNullable<ReturnType<Tasks['check']>['references']>

/**
 * A diagnostic per secret or tool that is missing and per argument that its tool does not take. A warning per flow that is not published
 * and per input that its function does not take: both may change before the flow runs. Each has a location.
 */
export async function missingReferences(
  scope: WorkspaceScope,
  { secrets, flows, tools, functions }: FlowReferences,
): Promise<{
  readonly diagnostics: Diagnostic[]
  readonly warnings: Diagnostic[]
}> {
  const [missing, wrong, ...warnings] = await Promise.all([
    missingSecrets(scope, secrets),
    wrongToolCalls(scope, tools),
    missingFlows(scope, flows),
    wrongInputs(scope, functions),
  ])
  return { diagnostics: [...missing, ...wrong], warnings: warnings.flat() }
}

async function missingSecrets(
  scope: WorkspaceScope,
  declared: FlowReferences['secrets'],
): Promise<Diagnostic[]> {
  if (declared.length === 0) return []
  const rows = await scope.rows<{ name: string }>(
    sql`select name from flow_secrets order by name collate "C"`,
  )
  const there = rows.map(({ name }) => name)
  return declared.flatMap(({ name, pointer, line, column }) => {
    if (there.includes(name)) return []
    const message = `The workspace has no secret \`${name}\`.`
    return [{ code: 'unknown_reference', message, line, column, pointer, hint: hintFor(name, there) }]
  })
}

function hintFor(name: string, there: readonly string[]): string {
  const store = `Store it: npx tenon secret set ${name}, or PUT ${FLOWS}/secrets/${name}.`
  const near = nearest(name, there)
  if (near !== undefined) return `Did you mean \`${near}\`? ${store}`
  const list = there.slice(0, CORE_LIMITS.diagnosticsReturnedMax).join(', ')
  return there.length === 0 ? store : `There are: ${list}. ${store}`
}

async function missingFlows(scope: WorkspaceScope, named: FlowReferences['flows']): Promise<Diagnostic[]> {
  if (named.length === 0) return []
  const distinct = (key: 'name' | 'version') => textArray([...new Set(named.map((one) => one[key]))])
  const there = await scope.rows<{ namespace: string; name: string; version: string | null }>(
    sql`select distinct namespace, document_name as name,
        case when document_version = any(${distinct('version')}::text[]) then document_version end as version
      from flow_versions where document_name = any(${distinct('name')}::text[]) and deleted_at is null`,
  )
  return named.flatMap(({ namespace, name, version, ...location }) => {
    const isThere = there.some(
      (one) =>
        one.namespace === namespace && one.name === name && (version === 'latest' || one.version === version),
    )
    if (isThere) return []
    const of = version === 'latest' ? '' : ` in version ${version}`
    const message = `The workspace has no published flow ${namespace}/${name}${of}.`
    const hint = 'Publish it before this flow runs.'
    return [{ code: 'unknown_reference', message, ...location, hint }]
  })
}

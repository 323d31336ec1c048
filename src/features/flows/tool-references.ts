/** Checks the tools that a flow calls (`call: mcp`) against the active versions of the MCP servers of its workspace. */

import { didYouMean } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import type { Tasks } from '../threads/run-in-thread.ts'
import type { Diagnostic } from './definitions.ts'

type ToolReference = NonNullable<ReturnType<Tasks['check']>['references']>['tools'][number]

interface ToolSchema {
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: readonly string[]
  readonly additionalProperties?: unknown
}

interface ToolRow {
  readonly id: string
  readonly slug: string
  /** Null if no version is active, or it has no tools. */
  readonly tool: string | null
  /** Of tools that the flow names. */
  readonly schema: ToolSchema | null
}

/**
 * A diagnostic per unknown server or tool, per missing argument and per argument that the tool does not have. The values of
 * arguments are checked when the tool is called.
 */
export async function wrongToolCalls(
  scope: WorkspaceScope,
  references: readonly ToolReference[],
): Promise<Diagnostic[]> {
  if (references.length === 0) return []
  const named = textArray([...new Set(references.map(({ tool }) => tool.name))])
  const rows = await scope.rows<ToolRow>(sql`
    select s.id, s.slug, tool ->> 'name' as tool,
      case when tool ->> 'name' = any(${named}::text[]) then tool -> 'input_schema' end as schema
    from mcp_servers s
      left join mcp_server_versions v on v.tenant_id = s.tenant_id and v.workspace_id = s.workspace_id
        and v.server_id = s.id and v.version = s.active_version
      left join lateral jsonb_array_elements(v.manifest -> 'tools') as tools (tool) on true
    order by s.slug collate "C", tool ->> 'name' collate "C"`)
  return references.flatMap((reference) => referenceDiagnostics(reference, rows))
}

function referenceDiagnostics(
  { server, tool, arguments: args }: ToolReference,
  rows: readonly ToolRow[],
): Diagnostic[] {
  const offered = rows.filter(({ id, slug }) => id === server.name || slug === server.name)
  if (offered.length === 0) {
    const slugs = [...new Set(rows.map(({ slug }) => slug))]
    return [unknownName(server, `The workspace has no MCP server \`${server.name}\`.`, slugs, 'servers')]
  }
  const found = offered.find((one) => one.tool === tool.name)
  if (found === undefined) {
    const names = offered.flatMap((one) => one.tool ?? [])
    const message = `The active version of \`${server.name}\` has no tool \`${tool.name}\`.`
    return [unknownName(tool, message, names, 'tools')]
  }
  return args === undefined ? [] : argumentDiagnostics(tool.name, args, found.schema ?? {})
}

/** A name in the definition of a flow, with its location. */
type NamedLocation = ToolReference['tool']

function unknownName(
  { name, ...at }: NamedLocation,
  message: string,
  known: readonly string[],
  what: string,
): Diagnostic {
  const list = known.slice(0, CORE_LIMITS.diagnosticsReturnedMax).join(', ')
  const all = known.length === 0 ? `There are no published ${what}.` : `There are: ${list}.`
  return { code: 'unknown_reference', message, ...at, hint: didYouMean(name, known) ?? all }
}

function argumentDiagnostics(
  tool: string,
  { names, ...at }: NonNullable<ToolReference['arguments']>,
  { properties = {}, required = [], additionalProperties }: ToolSchema,
): Diagnostic[] {
  const missing = required.filter((name) => !names.some((given) => given.name === name))
  const known = Object.keys(properties)
  const others = names.filter(({ name }) => additionalProperties === false && !known.includes(name))
  return [
    ...missing.map((name) => ({
      code: 'missing_argument',
      message: `\`${tool}\` needs the argument \`${name}\`.`,
      ...at,
    })),
    ...others.map((given) => ({
      ...unknownName(given, `\`${tool}\` has no argument \`${given.name}\`.`, known, 'arguments'),
      code: 'unknown_argument',
    })),
  ]
}

/** Deploys functions: compiles a source or a bundle, reads its constants, and stores it as the next immutable version. */

import { createHash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { adminOperation, Input, Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { DEVELOPERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { creates, fieldProblem } from '../operation-helpers.ts'
import { ACTIVE, inactiveProblem } from '../tenants/active.ts'
import { inThread } from '../threads/run-in-thread.ts'
import {
  ConfigWarnings,
  checkConfig,
  missingSecrets,
  requireRightToOpen,
  requireShareOfCode,
} from './check-config.ts'
import { ConfigChange, DEFAULTS } from './config.ts'
import type { FunctionConstants } from './exported-constants.ts'
import { FUNCTION_COLUMNS, FunctionDetails, type VersionRow, withConstants } from './functions.ts'
import { FUNCTION_LIMITS } from './limits.ts'
import { setSlotsAfterChange } from './runs/start-recorded.ts'
import { type Compiled, compileFunction, type Diagnostic, type EntryPoint } from './sandbox/compile.ts'
import { inlineMap, withoutInlineMap } from './source-map.ts'
import { writeTriggers } from './triggers/write-triggers.ts'
import { dropOldVersions } from './versions.ts'

const { sourceBytesMax: sourceMax, sourceMap: mapBounds } = FUNCTION_LIMITS

export const FunctionName = Type.String({
  pattern: '^[a-z][a-z0-9-]{0,62}$',
  description:
    'Name of the function, unique in the workspace: at most 63 lower-case letters, digits and hyphens, the first a letter.',
})

const Deployment = Input({
  workspace_id: Ref('workspace'),
  name: FunctionName,
  source: Type.String({
    minLength: 1,
    description: `TypeScript or JavaScript: one module of up to ${sourceMax / 1_048_576} MiB, whose \`export default\` is called with the input. It can import only \`tenon\`.`,
  }),
  source_map: Type.Optional(
    Type.String({
      minLength: 1,
      description: `Source map (version 3, JSON) of a bundled source, up to ${mapBounds.bytesMax / 1_048_576} MiB; locations of errors then refer to the original files.`,
    }),
  ),
  config: Type.Optional(ConfigChange),
  expected_version: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2_147_483_647,
      description:
        'Number of the version that must be active. 0: there must be no function of this name. Otherwise nothing is deployed (`precondition_failed`).',
    }),
  ),
})

export const createFunction = adminOperation({
  name: 'function.create',
  summary: 'Deploy a function; if the name exists, the function gets its next version',
  roles: DEVELOPERS,
  input: Deployment,
  output: component('DeployedFunction', Type.Interface([FunctionDetails], { warnings: ConfigWarnings }), {
    ...exampleOf(FunctionDetails),
    warnings: [],
  }),
  http: { ...creates('/v1/functions'), bodyBytesMax: FUNCTION_LIMITS.bodyBytesMax },
  run: async (scope, deployment) => {
    const { workspace_id, name } = deployment
    checkSizes(deployment)
    const place = { pointer: '/config', target: sql`f.workspace_id = ${workspace_id} and f.name = ${name}` }
    // Checked before the source is compiled, which takes longer.
    if (deployment.config !== undefined) await checkConfig(scope, deployment.config, place)
    const code = await compile(scope, deployment)
    const config = configOf(deployment, code.constants)
    if (code.constants.config !== undefined) await checkConfig(scope, config, place)
    await requireShareOfCode(scope, place.target, config)
    await requireRightToOpen(scope, place.target, config)
    const stored = await store(scope, { ...deployment, config }, code, async (inside, row) => {
      if (row === undefined) throw await refusedDeployment(inside, deployment)
      return { ...withConstants(row), ...(await missingSecrets(inside, config, place)) }
    })
    setSlotsAfterChange(scope, config, stored)
    return stored
  },
})

type Deployment = Static<typeof Deployment>

/** The reason why nothing was stored: another deployment came first, or the workspace is not active. */
async function refusedDeployment(
  inside: AdminScope,
  { workspace_id, name, expected_version }: Deployment,
): Promise<Problem> {
  const present = await inside.row<{ active: number }>(
    sql`select coalesce((select active_version from functions where workspace_id = ${workspace_id} and name = ${name}), 0) as active
      from workspaces where id = ${workspace_id} and ${ACTIVE}`,
  )
  if (present === undefined || expected_version === undefined) return inactiveProblem(inside, workspace_id)
  const { active } = present
  const now = active === 0 ? 'There is no function' : `Version ${active} is active of the function`
  const wanted =
    expected_version === 0 ? 'it was not to exist' : `version ${expected_version} was to be active`
  return new Problem('precondition_failed', { detail: `${now} ${name}, and ${wanted}.` })
}

/** An exported `config` is the whole configuration: members that it does not name get their defaults. Those of the request win. */
const configOf = ({ config = {} }: Deployment, constants: FunctionConstants): ConfigChange =>
  constants.config === undefined ? config : { ...DEFAULTS, ...constants.config, ...config }

/** @throws Problem `validation_failed` */
export function checkSizes({ source, source_map = '' }: Pick<Deployment, 'source' | 'source_map'>): void {
  if (Buffer.byteLength(source) > sourceMax)
    throw fieldProblem('source', `The maximum is ${sourceMax} bytes. Minify the bundle, or import less.`)
  if (Buffer.byteLength(source_map) > mapBounds.bytesMax) {
    const hint = 'Leave `sourcesContent` and `names` out, which are not used.'
    throw fieldProblem('source_map', `The maximum is ${mapBounds.bytesMax} bytes. ${hint}`)
  }
}

/** A version as it is stored; `undefined` is stored as null. */
interface StoredCode {
  readonly compiled: string
  readonly compiledMap: string | undefined
  readonly sourceMap: string | undefined
  readonly constants: FunctionConstants
  readonly entryPoints: readonly EntryPoint[]
}

/** Columns of a version, of which {@link codeValues} are those between the number and the author. */
export const CODE_COLUMNS = sql`tenant_id, workspace_id, function_id, version, source, compiled, compiled_map, source_map, sha256, bytes,
  exports, tool, input_schema, output_schema, created_by`

export function codeValues(
  source: string,
  { compiled, compiledMap, sourceMap, constants, entryPoints }: StoredCode,
): Sql {
  const sha256 = createHash('sha256').update(source).digest('hex')
  const [tool = null, input = null, output = null] = [
    constants.tool,
    constants.input_schema,
    constants.output_schema,
  ].map((value) => value && JSON.stringify(value))
  const texts = [source, compiled, compiledMap ?? '', sourceMap ?? '']
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  return sql`${source}, ${compiled}, ${compiledMap ?? null}::text, ${sourceMap ?? null}::text, ${sha256}, ${bytes},
    ${textArray(entryPoints)}::text[], ${tool}::jsonb, ${input}::jsonb, ${output}::jsonb`
}

/** @param outputOf gets the new version; undefined if there is no active workspace of that id */
async function store<T>(
  scope: AdminScope,
  { workspace_id, name, source, config = {}, expected_version }: Deployment,
  code: StoredCode,
  outputOf: (inside: AdminScope, row: VersionRow | undefined) => Promise<T>,
): Promise<T> {
  const change = JSON.stringify(config)
  const { subject } = scope.actor
  const expected = expected_version ?? null
  const id = scope.newId('fn')
  const is = sql`f.workspace_id = ${workspace_id} and f.name = ${name}`
  const statement = sql`
      with deployed as (
        insert into functions (id, tenant_id, workspace_id, name, active_version, latest_version, config, created_by)
        select ${id}, tenant_id, id, ${name}, 1, 1, ${change}::jsonb, ${subject}
        from workspaces where id = ${workspace_id} and ${ACTIVE}
          and (coalesce(${expected}::integer, 0) = 0
            or exists (select from functions f where ${is} and f.active_version = ${expected}::integer))
        on conflict (tenant_id, workspace_id, name) do update set
          active_version = functions.latest_version + 1, latest_version = functions.latest_version + 1,
          config = functions.config || excluded.config, updated_at = now()
          where ${expected}::integer is null or functions.active_version = ${expected}::integer
        returning *
      ), v as (
        insert into function_versions (${CODE_COLUMNS})
        select tenant_id, workspace_id, id, active_version, ${codeValues(source, code)}, ${subject}
        from deployed returning sha256, tool, input_schema, output_schema
      )
      select ${FUNCTION_COLUMNS}, v.tool, v.input_schema, v.output_schema from deployed f, v`
  const target = { is, created: { id, workspaceId: workspace_id } }
  return writeTriggers(scope, target, config, (more) =>
    effectOnce(scope, async (inside) => {
      const [[deployed] = []] = await inside.batch(statement, dropOldVersions(is), ...more)
      return outputOf(inside, deployed as unknown as VersionRow | undefined)
    }),
  )
}

/** @throws Problem `function_invalid` with all errors, `validation_failed` for a broken source map, `overloaded` */
export async function compile(
  scope: AdminScope,
  { source, source_map }: Pick<Deployment, 'source' | 'source_map'>,
): Promise<StoredCode> {
  const sourceMap = source_map === undefined ? undefined : await checkedMap(scope, source_map)
  const compiled = await compileFunction(source, scope.tenantId ?? scope.actor.subject)
  if (compiled.diagnostics !== undefined)
    throw functionInvalid(await originalDiagnostics(scope, sourceMap, compiled.diagnostics))
  const { code, entryPoints } = compiled
  const constants = await readConstants(scope, compiled, sourceMap)
  const map = inlineMap(code)
  if (map === undefined || map.length <= FUNCTION_LIMITS.inlineMapBytesMax)
    return { compiled: code, compiledMap: undefined, sourceMap, constants, entryPoints }
  return { compiled: withoutInlineMap(code), compiledMap: map, sourceMap, constants, entryPoints }
}

async function checkedMap(scope: AdminScope, text: string): Promise<string> {
  const ran = await inThread(scope, 'checkSourceMap', text, mapBounds.cpuMs)
  const { map, fault = 'It takes too long to read.' } = 'value' in ran ? ran.value : {}
  if (map === undefined) throw fieldProblem('source_map', fault)
  return map
}

/** The diagnostics of the compiler, at their places in the bundled files. */
async function originalDiagnostics(
  scope: AdminScope,
  sourceMap: string | undefined,
  diagnostics: readonly Diagnostic[],
): Promise<readonly Diagnostic[]> {
  if (sourceMap === undefined) return diagnostics
  const asked = { maps: { bundle: sourceMap }, positions: diagnostics }
  const ran = await inThread(scope, 'originalPositions', asked, mapBounds.cpuMs)
  return 'value' in ran
    ? diagnostics.map((diagnostic, n) => ({ ...diagnostic, ...ran.value[n] }))
    : diagnostics
}

type Code = Exclude<Compiled, { readonly diagnostics: readonly Diagnostic[] }>

async function readConstants(
  scope: AdminScope,
  { code, exported, mayImport }: Code,
  sourceMap: string | undefined,
): Promise<FunctionConstants> {
  if (exported.length === 0 && !mayImport) return {}
  const module = { code, exported, ...(sourceMap !== undefined && { sourceMap }) }
  const ran = await inThread(scope, 'readModule', module, FUNCTION_LIMITS.constant.cpuMs)
  const tooCostly = {
    message: 'The imports and exports of the source take too long to read.',
    line: 1,
    column: 1,
  }
  const { constants, diagnostics } = 'value' in ran ? ran.value : { constants: {}, diagnostics: [tooCostly] }
  if (diagnostics.length > 0) throw functionInvalid(diagnostics)
  return constants
}

/** A problem with all errors as members; its detail is the first. */
function functionInvalid(diagnostics: readonly Diagnostic[]): Problem {
  const [first] = diagnostics
  const more = diagnostics.length > 1 ? ` (and ${diagnostics.length - 1} more)` : ''
  const file = first?.file === undefined ? '' : `${first.file}:`
  const detail = first && `${file}${first.line}:${first.column} ${first.message}${more}`
  return new Problem('function_invalid', { ...(detail && { detail }), members: { diagnostics } })
}

/** Review of a draft before it is published: what it changes for clients, and a preview of what models see. */

import { isDeepStrictEqual } from 'node:util'
import Type, { type Static } from 'typebox'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { canonical, shortPointer } from '../../../core/json.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { scopeOf } from '../../../core/tool-access.ts'
import { isCompatible } from '../../collections/schemas/is-compatible.ts'
import { prepare } from '../../collections/schemas/schema-language.ts'
import { previewOperation } from '../../operation-helpers.ts'
import { draftTools } from '../curation/curation.ts'
import { compare, Diff, findPublished, lastOffered, type Manifest } from '../manifest.ts'
import { findServer, type McpServer, SERVERS, Server, Ws } from '../servers.ts'
import { candidatesOf } from '../sources/index.ts'
import { runTools } from '../sources/runs.ts'
import { estimatedTokens, type JsonSchema, rejectErrors, type Tool } from '../tool.ts'
import { type LintFinding, lintTools } from './lint.ts'

export const Reason = Type.Object({
  tool: Type.Union([Type.String(), Type.Null()]),
  detail: Type.String(),
})
type Reason = Static<typeof Reason>

export const ReviewClass = Type.Union(
  [Type.Literal('safe'), Type.Literal('breaking'), Type.Literal('suspect')],
  {
    description:
      '`breaking`: calls that clients made before may fail now. `suspect`: texts look as if they gave orders to models, or hid something.',
  },
)

const Finding = Type.Object({
  tool: Type.Union([Type.String(), Type.Null()]),
  pointer: Type.String({ description: 'JSON pointer into the tool or, without one, the server.' }),
  rule: Type.String(),
  severity: Type.Union([Type.Literal('error'), Type.Literal('suspect'), Type.Literal('advice')]),
  detail: Type.String(),
})

/** A draft as it would be published. */
export interface Draft {
  readonly manifest: Manifest
  readonly diff: Diff
  readonly class: Static<typeof ReviewClass>
  readonly reasons: readonly Reason[]
  readonly findings: readonly LintFinding[]
}

/**
 * @throws Problem `state_conflict` if no tool is enabled; `validation_failed` if the curation does not fit the sources, or a
 *   text of a tool has hidden characters or a secret
 */
export async function draftOf(scope: WorkspaceScope, server: McpServer): Promise<Draft> {
  const { id, slug, name, description, curation, active_version } = server
  const candidates = await candidatesOf(scope, Object.keys(curation.tools))
  const chosen = draftTools(curation.tools, candidates)
  if (chosen.length === 0) throw new Problem('state_conflict', { detail: 'No tool is enabled in the draft.' })
  const tools = [...chosen, ...runTools(scope, chosen)].sort((a, b) => (a.name < b.name ? -1 : 1))
  const { prompts, resources } = curation
  const manifest = JSON.parse(canonical({ name, description, tools, prompts, resources })) as Manifest
  const active = active_version === null ? NOTHING : (await findPublished(scope, id, active_version)).manifest
  const before = active.tools
  const offered = await lastOffered(scope, server, manifest.tools)
  const findings = lintTools(manifest.tools, manifest)
  rejectErrors(findings.filter(({ severity }) => severity === 'error').map(toInputError))
  const suspect = suspectTexts(findings, active)
  const reasons = [...suspect, ...breakingChanges(slug, before, manifest.tools)]
  const diff = compare(slug, before, offered, manifest.tools)
  const kind = suspect.length > 0 ? 'suspect' : reasons.length > 0 ? 'breaking' : 'safe'
  return { manifest, diff, class: kind, reasons, findings }
}

const NOTHING: Manifest = { name: '', description: '', tools: [] }

const toInputError = ({ tool, pointer, detail }: LintFinding): InputError => ({
  in: 'body',
  name: tool ?? 'server',
  pointer: `${tool === null ? '' : `/tools/${shortPointer(tool)}`}${pointer}`,
  detail,
})

/** Suspect texts, other than those that the active version has: these were approved. */
function suspectTexts(
  findings: readonly LintFinding[],
  before: Pick<Manifest, 'name' | 'description' | 'tools'>,
): Reason[] {
  const keyOf = ({ tool, pointer, rule, detail }: LintFinding) =>
    JSON.stringify([tool, pointer, rule, detail])
  const known = new Set(lintTools(before.tools, before).map(keyOf))
  return findings
    .filter((finding) => finding.severity === 'suspect' && !known.has(keyOf(finding)))
    .map(({ tool, pointer, detail }) => ({ tool, detail: `${pointer.slice(1)} ${detail}` }))
}

/** The changes after which calls that succeeded before may fail, or return what their schema did not say. */
function breakingChanges(slug: string, before: readonly Tool[], after: readonly Tool[]): Reason[] {
  return before.flatMap((was) => {
    const now = after.find(({ name }) => name === was.name)
    if (now === undefined) return [{ tool: was.name, detail: 'is removed' }]
    const details = [
      now.candidate === was.candidate ? undefined : `runs ${now.candidate}; before, it ran ${was.candidate}`,
      now.scope === was.scope
        ? undefined
        : `needs the scope ${scopeOf(slug, now)}; before, ${scopeOf(slug, was)}`,
      accepts(now.input_schema, was.input_schema) ? undefined : 'may refuse arguments that it took before',
      accepts(was.output_schema ?? {}, now.output_schema ?? {})
        ? undefined
        : 'may return what its schema excluded',
    ]
    return details.flatMap((detail) => (detail === undefined ? [] : [{ tool: was.name, detail }]))
  })
}

/** True if a schema surely accepts every value of another one. Texts for readers do not count. */
const accepts = (schema: JsonSchema, values: JsonSchema) =>
  isDeepStrictEqual(schema, values) || isCompatible(prepare(values).schema, prepare(schema).schema)

export const previewServer = previewOperation({
  name: 'mcp_server.preview',
  summary: 'Preview the draft: the tools as models see them, their size, and what publishing would change',
  input: Input({ ws: Ws, server: Server }),
  output: Type.Object({
    instructions: Type.String(),
    tools: Type.Array(
      Type.Object({
        name: Type.String(),
        title: Type.String(),
        description: Type.String(),
        inputSchema: Type.Record(Type.String(), Type.Unknown()),
        outputSchema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
        annotations: Type.Record(Type.String(), Type.Boolean()),
      }),
      { description: 'As in `tools/list`.' },
    ),
    bytes: Type.Integer({ description: 'Of the tools as JSON.' }),
    tokens: Type.Integer({ description: 'Estimated, at four characters per token.' }),
    diff: Diff,
    class: ReviewClass,
    reasons: Type.Array(Reason),
    findings: Type.Array(Finding, { description: 'Of the check of texts and schemas.' }),
  }),
  http: { method: 'GET', path: `${SERVERS}/{server}/preview` },
  run: async (scope, { server }) => {
    const { manifest, ...review } = await draftOf(scope, await findServer(scope, server))
    const tools = manifest.tools.map(shownTool)
    const json = JSON.stringify(tools)
    return {
      instructions: manifest.description,
      tools,
      bytes: Buffer.byteLength(json),
      tokens: estimatedTokens(json.length),
      ...review,
      reasons: [...review.reasons],
      findings: [...review.findings],
    }
  },
})

/** A tool as clients are shown it. */
export function shownTool({ name, title, description, input_schema, output_schema, annotations }: Tool) {
  return {
    name,
    title,
    description,
    inputSchema: input_schema,
    ...(output_schema && { outputSchema: output_schema }),
    annotations: { ...annotations },
  }
}

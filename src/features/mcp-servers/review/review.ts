/** Review of a draft before it is published: what it changes for clients, and a preview of what models see. */

import Type, { type Static } from 'typebox'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { canonical, shortPointer } from '../../../core/json.ts'
import { VIEWERS } from '../../../core/policy.ts'
import { portableInput, portableOutput } from '../../../core/portable-schema.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { READS } from '../../../core/tool-annotations.ts'
import { previewOperation } from '../../operation-helpers.ts'
import { inThread } from '../../threads/run-in-thread.ts'
import { markedSchema, type ResultsMode } from '../calls/result-form.ts'
import { draftTools } from '../curation/curation.ts'
import { Groups, groupsOf } from '../curation/groups.ts'
import { MCP_LIMITS } from '../limits.ts'
import { compare, Diff, findPublished, lastPublishedTools, type Manifest } from '../manifest.ts'
import { type SearchMode, searchToolsFor, usesSearch } from '../search/search-tool-list.ts'
import { findServer, type McpServer, SERVERS, Server, Ws } from '../servers.ts'
import { estimatedTokens, rejectErrors, type Tool } from '../tool.ts'
import { executionTools } from '../tool-providers/executions.ts'
import { readCandidates } from '../tool-providers/index.ts'
import type { LintFinding } from './lint.ts'
import { type ReviewInput, reviewTools, type ToolReview } from './review-tools.ts'

export const Reason = component(
  'McpReviewReason',
  Type.Object({
    tool: Type.Union([Type.String(), Type.Null()]),
    detail: Type.String(),
  }),
  { tool: 'bookings_query', detail: 'The argument court is required now.' },
)
type Reason = Static<typeof Reason>

export const ReviewClass = Type.Union(
  [Type.Literal('safe'), Type.Literal('breaking'), Type.Literal('suspect')],
  {
    description:
      'Class of the change. `breaking`: calls that clients made before may now fail. `suspect`: texts look as if they instruct models, or hide something.',
  },
)

const Finding = Type.Object({
  tool: Type.Union([Type.String(), Type.Null()]),
  pointer: Type.String({
    description: 'JSON pointer into the tool, or into the server if no tool is named.',
  }),
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
export async function readDraft(scope: WorkspaceScope, server: McpServer): Promise<Draft> {
  const { id, slug, name, description, curation, active_version } = server
  const candidates = await readCandidates(scope, Object.keys(curation.tools))
  const chosen = draftTools(curation, candidates)
  if (chosen.length === 0) throw NOTHING_CHOSEN
  const tools = [...chosen, ...executionTools(scope, chosen)].sort((a, b) => (a.name < b.name ? -1 : 1))
  const { prompts, resources } = curation
  const groups = groupsOf(curation.groups)
  const manifest = JSON.parse(canonical({ name, description, tools, groups, prompts, resources })) as Manifest
  const active =
    active_version === null ? EMPTY_MANIFEST : (await findPublished(scope, id, active_version)).manifest
  const before = active.tools
  const offered = await lastPublishedTools(scope, server, manifest.tools)
  const { findings, suspect, breaking } = await review(scope, {
    slug,
    before: reviewedPart(active),
    after: reviewedPart(manifest),
  })
  rejectErrors(findings.filter(({ severity }) => severity === 'error').map(toInputError))
  const reasons = [...suspect, ...breaking]
  const diff = compare(slug, before, offered, manifest.tools)
  const kind = suspect.length > 0 ? 'suspect' : reasons.length > 0 ? 'breaking' : 'safe'
  return { manifest, diff, class: kind, reasons, findings }
}

/**
 * Reviews small manifests on this thread, others in a worker thread: the time grows with texts and schemas, to seconds.
 * @throws Problem `validation_failed` if it takes more than `mcpReview.cpuMs` of CPU time; `overloaded`
 */
async function review(scope: WorkspaceScope, input: ReviewInput): Promise<ToolReview> {
  const { charsInlineMax: charsInline, cpuMs } = MCP_LIMITS.review
  if (JSON.stringify([input.before, input.after]).length <= charsInline) return reviewTools(input)
  const ran = await inThread(scope, 'reviewTools', input, cpuMs)
  if ('value' in ran) return ran.value
  const detail = `The texts and schemas of these tools take more than ${cpuMs / 1_000} s to check. Enable fewer tools, or simplify their schemas.`
  throw new Problem('validation_failed', { detail })
}

/** Prompts and resources are for people and clients to choose, and not checked as texts of tools are. */
const reviewedPart = ({ name, description, groups = [], tools }: Manifest) => ({
  name,
  description,
  groups,
  tools,
})

/**
 * The class of a version that was published elsewhere, as of a first one. What may not be published here at all makes it suspect.
 * @throws Problem `validation_failed` if its texts and schemas take too long to check
 */
export async function classify(
  scope: WorkspaceScope,
  slug: string,
  manifest: Manifest,
): Promise<Pick<Draft, 'class' | 'reasons'>> {
  const [before, after] = [reviewedPart(EMPTY_MANIFEST), reviewedPart(manifest)]
  const { findings, suspect } = await review(scope, { slug, before, after })
  const errors = findings.filter(({ severity }) => severity === 'error')
  const reasons = [
    ...errors.map(({ tool, pointer, detail }) => ({ tool, detail: `${pointer.slice(1)} ${detail}` })),
    ...suspect,
  ]
  return { class: reasons.length > 0 ? 'suspect' : 'safe', reasons }
}

const NOTHING_CHOSEN = new Problem('state_conflict', {
  detail: 'The draft has no enabled tools, so there is nothing to publish.',
  hint: 'Enable tools with PUT …/curation. GET …/candidates lists the candidates.',
})

const EMPTY_MANIFEST: Manifest = { name: '', description: '', tools: [] }

const toInputError = ({ tool, pointer, detail }: LintFinding): InputError => ({
  in: 'body',
  name: tool ?? 'server',
  pointer: `${tool === null ? '' : `/tools/${shortPointer(tool)}`}${pointer}`,
  detail,
})

const ShownTool = component(
  'McpTool',
  Type.Object({
    name: Type.String(),
    title: Type.String(),
    description: Type.String(),
    inputSchema: Type.Record(Type.String(), Type.Unknown()),
    outputSchema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    annotations: Type.Record(Type.String(), Type.Boolean()),
    _meta: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  }),
  {
    name: 'bookings_query',
    title: 'Query bookings',
    description: 'Find bookings by court and time.',
    inputSchema: { type: 'object' },
    annotations: READS,
  },
)

export const previewServer = previewOperation({
  name: 'mcp_server.preview',
  roles: VIEWERS,
  summary:
    'Preview the draft of a hosted MCP server: the tools as models see them, their size, and the changes of publishing it',
  input: Input({ ws: Ws, server: Server }),
  output: component(
    'McpPreview',
    Type.Object({
      instructions: Type.String(),
      tools: Type.Array(ShownTool, { description: 'Tools as in `tools/list`, without tool search.' }),
      bytes: Type.Integer({ description: 'Size of the tools as JSON, in bytes.' }),
      tokens: Type.Integer({ description: 'Number of tokens, estimated at four characters per token.' }),
      with_search: Type.Object(
        {
          active: Type.Boolean(),
          tools: Type.Array(ShownTool),
          bytes: Type.Integer(),
          tokens: Type.Integer(),
        },
        {
          description:
            'Content of `tools/list` with tool search; `active`: tool search is on for this draft.',
        },
      ),
      groups: Groups,
      diff: Diff,
      class: ReviewClass,
      reasons: Type.Array(Reason),
      findings: Type.Array(Finding, { description: 'Findings of the check of texts and schemas.' }),
    }),
    {
      instructions: 'Courts and their bookings.',
      tools: [exampleOf(ShownTool)],
      bytes: 180,
      tokens: 45,
      with_search: { active: false, tools: [], bytes: 0, tokens: 0 },
      groups: [],
      diff: { added: [], removed: [], changed: [], widened: [], summary: [] },
      class: 'safe',
      reasons: [],
      findings: [],
    },
  ),
  http: { method: 'GET', path: `${SERVERS}/{server}/preview` },
  run: async (scope, { server }) => {
    const found = await findServer(scope, server)
    const { manifest, ...review } = await readDraft(scope, found)
    const describe = (tool: Tool) => shownTool(tool, found.results)
    const pinned = manifest.tools.filter((tool) => tool.pinned)
    const withSearch = sized([...pinned.map(describe), ...searchToolsFor(manifest.tools)])
    const membersOf = (group: string) =>
      manifest.tools.flatMap((tool) => (tool.group === group ? [tool.name] : []))
    return {
      instructions: manifest.description,
      ...sized(manifest.tools.map(describe)),
      with_search: { active: usesSearch(found.search as SearchMode, manifest.tools), ...withSearch },
      groups: (manifest.groups ?? []).map((group) => ({ ...group, tools: membersOf(group.name) })),
      ...review,
      reasons: [...review.reasons],
      findings: [...review.findings],
    }
  },
})

/** Tools with the size of their list. */
function sized<T>(tools: T[]) {
  const json = JSON.stringify(tools)
  return { tools, bytes: Buffer.byteLength(json), tokens: estimatedTokens(json.length) }
}

/** A tool as clients are shown it. */
export function shownTool(tool: Tool, results: ResultsMode) {
  const { name, title, description, input_schema, output_schema, annotations, group } = tool
  return {
    name,
    title,
    description,
    inputSchema: portableInput(input_schema),
    // Clients refuse a result without structured content of a tool that has an output schema.
    ...(output_schema && results !== 'text' && { outputSchema: markedSchema(portableOutput(output_schema)) }),
    annotations: { ...annotations },
    ...(group !== undefined && { _meta: { 'tenon/group': group } }),
  }
}

/** Curation: the draft of a server, which selects candidates as tools and sets their names, texts and scopes. */

import Type, { type Static } from 'typebox'
import { type Budget, newBudget } from '../../../../flows-dsl/budget.ts'
import { didYouMean } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { IfMatch, Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { shortPointer } from '../../../core/json.ts'
import { DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { type InputError, notFound } from '../../../core/problem.ts'
import { curatedAnnotations, type Hint, READS, readsOnly, weakens } from '../../../core/tool-annotations.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { contentTag, previewOperation, requireMatch } from '../../operation-helpers.ts'
import { MCP_LIMITS } from '../limits.ts'
import { Prompts, promptFaults, Resources } from '../prompts.ts'
import { SEARCH_TOOL_NAMES } from '../search/search-tool-list.ts'
import {
  type Choice,
  type Curation,
  curationTag,
  findServer,
  SERVERS,
  Server,
  SHOWN_COLUMNS,
  ShownServer,
  Tools,
  Ws,
} from '../servers.ts'
import { type Candidate, findHidden, rejectErrors, type Tool } from '../tool.ts'
import { TOOL_NAME_PATTERN } from '../tool-name.ts'
import { EXECUTION_TOOL_NAMES } from '../tool-providers/executions.ts'
import { readCandidates } from '../tool-providers/index.ts'
import { argumentFaults, curateArguments, firstError } from './curated-arguments.ts'
import { Groups, groupFaults, groupTools } from './groups.ts'

const NAME = new RegExp(TOOL_NAME_PATTERN)
/** Names that look as if the tool were the platform's, and those of the tools that servers have besides. */
const RESERVED = /^(mcp|tenon|rpc|system)([_.-].*)?$/i
const RESERVED_NAMES = new Set([...EXECUTION_TOOL_NAMES, ...SEARCH_TOOL_NAMES])
export const isReserved = (name: string) => RESERVED.test(name) || RESERVED_NAMES.has(name.toLowerCase())

const Schema = Type.Record(Type.String(), Type.Unknown(), {
  description: 'JSON Schema 2020-12 of the arguments or of the result.',
})
const CandidateView = component(
  'McpCandidate',
  Type.Object({
    candidate: Type.String(),
    name: Type.String(),
    title: Type.String(),
    description: Type.String(),
    input_schema: Schema,
    output_schema: Type.Optional(Schema),
    annotations: Type.Record(Type.String(), Type.Boolean()),
    claimed_annotations: Type.Optional(
      Type.Record(Type.String(), Type.Boolean(), {
        description:
          'Hints that the upstream server declares for its tool. The curation may adopt them, but not relax them further.',
      }),
    ),
    scope: Type.String(),
    risk: Type.Union([Type.Literal('read'), Type.Literal('write')]),
  }),
  {
    candidate: 'collections:bookings:query',
    name: 'bookings_query',
    title: 'Query bookings',
    description: 'Find bookings by court and time.',
    input_schema: { type: 'object' },
    annotations: READS,
    scope: 'mcp:bookings:read',
    risk: 'read',
  },
)

export const listCandidates = previewOperation({
  name: 'mcp_candidate.list',
  roles: VIEWERS,
  summary: 'List candidates for tools: collections, buckets, functions, published flows, events, sources',
  input: Input({ ws: Ws, server: Server }),
  output: Type.Object({ data: Type.Array(CandidateView) }),
  http: { method: 'GET', path: `${SERVERS}/{server}/candidates` },
  run: async (scope, { server }) => {
    await findServer(scope, server)
    const candidates = await readCandidates(scope)
    const data = candidates.map(({ binding: _binding, ...view }) => view)
    return { data: data as unknown as Static<typeof CandidateView>[] }
  },
})

export const curate = previewOperation({
  name: 'mcp_curation.replace',
  roles: DEVELOPERS,
  summary:
    'Replace the draft of a hosted MCP server: its tools with their names, texts, scopes and groups; prompts; resources',
  input: Input({
    ws: Ws,
    server: Server,
    tools: Tools,
    groups: Type.Optional(Groups),
    prompts: Type.Optional(Prompts),
    resources: Type.Optional(Resources),
    if_match: Type.Optional(IfMatch('curation')),
  }),
  output: ShownServer,
  http: {
    method: 'PUT',
    path: `${SERVERS}/{server}/curation`,
    body: '*',
    headers: { if_match: 'if-match' },
    etag: curationTag,
  },
  run: async (scope, { server, tools, groups = [], prompts = {}, resources = {}, if_match }) => {
    const { id, curation: present } = await findServer(scope, server)
    requireMatch(if_match, contentTag(present), CURATION)
    const candidates = await candidatesFor(scope, tools)
    const curation = { tools: byCandidate(tools, candidates), groups, prompts, resources }
    draftTools(curation, candidates)
    rejectErrors(
      promptFaults(prompts, resources).map(([pointer, detail]) => ({
        in: 'body',
        name: pointer.split('/')[1] ?? '',
        pointer,
        detail,
      })),
    )
    const expected = if_match === undefined ? null : JSON.stringify(present)
    const written = await scope.row<ShownServer>(
      sql`update mcp_servers set curation = ${JSON.stringify(curation)}::jsonb, updated_at = now(),
          state = case when state = 'created' then 'curated' else state end
        where id = ${id} and (${expected}::jsonb is null or curation = ${expected}::jsonb) returning ${SHOWN_COLUMNS}`,
    )
    if (written !== undefined) return written
    // Another request has replaced the draft since it was read, or the server is not there.
    requireMatch(if_match && '""', curationTag(await findServer(scope, server)), CURATION)
    throw notFound('MCP server')
  },
})

const CURATION = 'The curation of the server'

type Choices = Readonly<Record<string, Choice>>

/** The candidates that are chosen; all if one is unknown, so that its error can name the nearest. */
async function candidatesFor(scope: WorkspaceScope, choices: Choices): Promise<Candidate[]> {
  const chosen = await readCandidates(scope, Object.keys(choices))
  const known = new Set(chosen.flatMap(({ candidate, name }) => [candidate, name]))
  const isKnown = Object.entries(choices).every(([key, { enabled }]) => !enabled || known.has(key))
  return isKnown ? chosen : readCandidates(scope)
}

/** Keys the choices by candidate: a choice may also name a candidate by its tool name, if that is unambiguous. */
function byCandidate(choices: Choices, candidates: readonly Candidate[]): Choices {
  const keyOf = (key: string): string => {
    const named = candidates.filter(({ candidate, name }) => candidate === key || name === key)
    const [only] = named.length === 1 ? named : []
    return only === undefined || Object.hasOwn(choices, only.candidate) ? key : only.candidate
  }
  return Object.fromEntries(Object.entries(choices).map(([key, choice]) => [keyOf(key), choice]))
}

/**
 * The tools of a curation, ordered by name.
 * @throws Problem `validation_failed` with all errors: unknown candidates, names, texts, groups, weakened annotations
 */
export function draftTools(
  { tools: choices, groups }: Pick<Curation, 'tools' | 'groups'>,
  candidates: readonly Candidate[],
): Tool[] {
  const known = new Map(candidates.map((candidate) => [candidate.candidate, candidate]))
  const faults: (InputError | undefined)[] = []
  const tools: Tool[] = []
  // Of all together: a curation may have thousands of values.
  const budget = newBudget()
  for (const [key, choice] of Object.entries(choices)) {
    const candidate = known.get(key)
    if (candidate === undefined) {
      if (choice.enabled) faults.push(fault(key, '', notACandidate(key, candidates)))
      continue
    }
    const tool = toolOf(candidate, choice)
    faults.push(...choiceFaults(key, choice, candidate, budget), ...exampleFaults(key, choice, tool, budget))
    if (choice.enabled) tools.push(tool)
  }
  faults.push(...collisions(tools), ...groupFaults(groups, tools))
  if (tools.length > MCP_LIMITS.toolsMax)
    faults.push(fault('', '', `enables more than ${MCP_LIMITS.toolsMax} tools`))
  rejectErrors(faults)
  return groupTools(groups, tools).sort((a, b) => (a.name < b.name ? -1 : 1))
}

const exampleFaults = (key: string, { examples = [] }: Choice, { input_schema }: Tool, budget: Budget) =>
  examples.map((example, index) => {
    const error = firstError(input_schema, example, budget)
    return error === undefined ? undefined : fault(key, `/examples/${index}`, error)
  })

function toolOf(candidate: Candidate, choice: Choice): Tool {
  const { risk, claimed_annotations: _claimed, ...rest } = candidate
  const name = choice.name ?? candidate.name
  const annotations = curatedAnnotations(
    candidate.annotations,
    candidate.claimed_annotations,
    choice.annotations,
  )
  const { input_schema, preset } = curateArguments(candidate, choice.arguments ?? {})
  const { examples, limits } = choice
  return {
    ...rest,
    name,
    input_schema: examples === undefined ? input_schema : { ...input_schema, examples },
    ...(choice.arguments !== undefined && { preset }),
    ...(limits !== undefined && { limits }),
    title: choice.title ?? candidate.title,
    description: choice.description ?? candidate.description,
    annotations,
    scope: choice.scope ?? name,
    reads: risk === 'read' || readsOnly(annotations),
    ...(choice.pinned && { pinned: true }),
  }
}

function choiceFaults(
  key: string,
  choice: Choice,
  candidate: Candidate,
  budget: Budget,
): (InputError | undefined)[] {
  const name = choice.name ?? candidate.name
  return [
    NAME.test(name)
      ? undefined
      : fault(key, '/name', `takes letters, digits, _ and -, at most ${MCP_LIMITS.toolNameCharsMax}`),
    isReserved(name) ? fault(key, '/name', 'is a reserved name') : undefined,
    choice.limits?.wait_seconds === undefined || candidate.binding.wait_seconds !== undefined
      ? undefined
      : fault(key, '/limits/wait_seconds', 'is for flows alone'),
    findHidden(choice.title ?? '', at(key, '/title')),
    findHidden(choice.description ?? '', at(key, '/description')),
    ...argumentFaults(candidate, choice.arguments ?? {}, budget).map(([argument, detail]) =>
      fault(key, `/arguments/${shortPointer(argument)}`, detail),
    ),
    ...Object.entries(choice.arguments ?? {}).map(([argument, { description }]) =>
      findHidden(description ?? '', at(key, `/arguments/${shortPointer(argument)}/description`)),
    ),
    ...Object.entries(choice.annotations ?? {}).map(([hint, value]) =>
      weakens(candidate.claimed_annotations ?? candidate.annotations, hint as Hint, value)
        ? fault(key, `/annotations/${hint}`, `would make the tool look safer than it is (${!value})`)
        : undefined,
    ),
  ]
}

/** Rejects names that differ in case alone, which some clients confuse. */
function collisions(tools: readonly Tool[]): InputError[] {
  const names = tools.map(({ name }) => name.toLowerCase())
  return tools
    .filter(({ name }, index) => names.indexOf(name.toLowerCase()) < index)
    .map(({ name }) => fault('', '', `has two tools named ${name}`))
}

const FLOW_TOOLS_OFF =
  'Tools of flows are off in this workspace: `POST /v1/services/configure` with `"experimental": ["mcp.flow_tools"]` turns them on.'

/** Of a key that is neither the id nor the name of a candidate. */
function notACandidate(key: string, candidates: readonly Candidate[]): string {
  const known = candidates.flatMap(({ candidate, name }) => [candidate, name])
  const isOff =
    /^(flows|executions):/.test(key) && !known.some((id) => id.startsWith(key.slice(0, key.indexOf(':') + 1)))
  const hints = isOff
    ? [FLOW_TOOLS_OFF]
    : [didYouMean(key, known), '`tenon mcp candidates <server>` lists all.']
  return ['is not a candidate.', ...hints].filter(Boolean).join(' ')
}

const at = (key: string, tail: string) => `/tools/${shortPointer(key)}${tail}`

function fault(key: string, tail: string, detail: string): InputError {
  return { in: 'body', name: 'tools', pointer: key === '' ? '/tools' : at(key, tail), detail }
}

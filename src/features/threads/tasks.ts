/** The tasks of worker threads, from plain data to plain data. */

import { createHash } from 'node:crypto'
import { type Catalogue, compile } from '../../../flows-dsl/compile/compile.ts'
import { type Location, nodeAt, type SourceNode } from '../../../flows-dsl/compile/source-nodes.ts'
import { graphOf } from '../../../flows-dsl/graph/build-graph.ts'
import { mermaidOf } from '../../../flows-dsl/graph/mermaid.ts'
import { canonical, type FlowIR, type Json, type Template } from '../../../flows-dsl/ir.ts'
import { isObject, pointerTo } from '../../../flows-dsl/json.ts'
import { TaskIndex } from '../../../flows-dsl/machine/task-index.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { type Simulation, SimulationInvalid } from '../../../flows-dsl/simulator/types.ts'
import { MCP, type McpBody, mcpCallOf } from '../../../flows-dsl/tasks/call-mcp.ts'
import type { RunBody } from '../../../flows-dsl/tasks/run.ts'
import { literalField } from '../../../flows-dsl/tasks/task.ts'
import { InvalidDocument, type YamlText, yamlToJson } from '../../infra/openapi/document.ts'
import { evaluate, type Validation } from '../collections/schemas/evaluate-schema.ts'
import { flowSummary } from '../flows/flow-summary.ts'
import { FLOW_LIMITS } from '../flows/limits.ts'
import { type CompiledModule, readModule } from '../functions/exported-constants.ts'
import { checkSourceMap, type Maps, originOf, type Position } from '../functions/source-map.ts'
import { type McpSourceTools, readMcpTools } from '../mcp-servers/remote/mcp/mcp-definitions.ts'
import { type OpenApiSource, readOpenApi } from '../mcp-servers/remote/openapi/read-tools.ts'
import { type ReviewInput, reviewTools } from '../mcp-servers/review/review-tools.ts'

/** A flow's definition, and the functions that it may call. */
interface FlowSource {
  readonly source: string
  readonly catalogue: Catalogue
}

/** A definition that is not valid. */
type Invalid = Pick<ReturnType<typeof compile>, 'diagnostics'>

/** Answers or events for a simulation that do not fit the flow. */
interface Refused {
  readonly refused: { readonly detail: string; readonly pointer: string }
}

const compiled = ({ source, catalogue }: FlowSource) =>
  compile(source, { catalogue, sizeBytesMax: FLOW_LIMITS.sourceBytesMax })

/** A tool that a flow calls. */
interface ToolReference {
  readonly server: Named
  readonly tool: Named
  /** The location of `with.arguments`, or of `with`, and each argument; undefined if an expression yields them. */
  readonly arguments?: Location & { readonly names: readonly Named[] }
}

type Named = Location & { readonly name: string }

/** A call of a function with an input that has no expressions. */
interface FunctionReference {
  /** Id or name. */
  readonly name: string
  /** By default the active version. */
  readonly version?: number
  readonly input: Json
  /** The location of `with.input`, or of the call, and of each member of the input. */
  readonly at: Location & { readonly members: readonly Named[] }
}

/** The secrets, flows, tools and functions of its workspace that a flow refers to. */
interface FlowReferences {
  readonly secrets: readonly Named[]
  /** The flows that it runs, other than itself; `version` is that of the document, or `latest`. */
  readonly flows: readonly (Location & Readonly<Record<'namespace' | 'name' | 'version', string>>)[]
  readonly tools: readonly ToolReference[]
  readonly functions: readonly FunctionReference[]
}

/** References of a flow to its workspace, each with its location. */
function referencesOf(ir: FlowIR, definition: SourceNode): FlowReferences {
  const locate = (pointer: string) => {
    const { line, column } = nodeAt(definition, pointer)?.at ?? definition
    return { pointer, line, column }
  }
  const secrets = (ir.secrets ?? []).map((name, index) => ({ name, ...locate(`/use/secrets/${index}`) }))
  const flows = new TaskIndex(ir).all().flatMap(({ kind, pointer, body }) => {
    if (kind !== 'run') return []
    const { namespace, name, version } = body as RunBody
    const isItself = namespace === ir.document.namespace && name === ir.document.name
    return isItself ? [] : [{ namespace, name, version, ...locate(`${pointer}/run/workflow/name`) }]
  })
  const tools = new TaskIndex(ir).all().flatMap(({ kind, pointer, body }) => {
    if (kind !== 'call' || (body as Partial<McpBody>).function !== MCP) return []
    const { server, tool, names } = mcpCallOf(body as McpBody)
    const given = `${pointer}/with/arguments`
    const at = nodeAt(definition, given) === undefined ? `${pointer}/with` : given
    return {
      server: { name: server, ...locate(`${pointer}/with/server`) },
      tool: { name: tool, ...locate(`${pointer}/with/tool`) },
      ...(names && {
        arguments: {
          ...locate(at),
          names: names.map((name) => ({ name, ...locate(pointerTo(given, name)) })),
        },
      }),
    }
  })
  const functions = new TaskIndex(ir).all().flatMap(({ kind, pointer, body }) => {
    const called = kind === 'call' ? literalInvocation(body as Call) : undefined
    if (called === undefined) return []
    const given = `${pointer}/with/input`
    const at =
      nodeAt(definition, given) === undefined ? { ...locate(pointer), pointer: given } : locate(given)
    const names = isObject(called.input) ? Object.keys(called.input) : []
    const members = names.map((name) => ({ name, ...locate(pointerTo(given, name)) }))
    return [{ ...called, at: { ...at, members } }]
  })
  return { secrets, flows, tools, functions }
}

interface Call {
  readonly function?: string
  readonly arguments?: Template
}

/** @returns undefined for other calls, and if an expression or an alias decides what is called with what */
function literalInvocation({
  function: called,
  arguments: given,
}: Call): Omit<FunctionReference, 'at'> | undefined {
  if (called !== 'function.invoke' || given === undefined) return undefined
  const names = 'object' in given ? given.object.map(([name]) => name) : literalNames(given)
  const args = new Map(names.map((name) => [name, literalField(given, name)]))
  const [name, version] = [args.get('id'), args.get('version')]
  if (args.has('alias') || [...args.values()].includes(undefined)) return undefined
  if (typeof name !== 'string' || name.includes('@')) return undefined
  const input = args.has('input') ? (args.get('input') ?? null) : {}
  return { name, input, ...(typeof version === 'number' && { version }) }
}

const literalNames = (template: Template): readonly string[] =>
  'literal' in template && isObject(template.literal) ? Object.keys(template.literal) : []

export const TASKS = {
  validate: (validation: Validation) => evaluate(validation),

  /** Of the draft and the active version of an MCP server. */
  reviewTools: (input: ReviewInput) => reviewTools(input),

  /** Constants and imports of the compiled module of a function. */
  readModule: (module: CompiledModule) => readModule(module),

  /** Of the bundle of a function. */
  checkSourceMap: (text: string) => checkSourceMap(text),

  originalPositions: ({ maps, positions }: { maps: Maps; positions: readonly Position[] }) =>
    positions.map((position) => originOf(maps, position)),

  openApiTools: (source: OpenApiSource) => readOpenApi(source),

  /** Of an OpenAPI document that a flow calls. */
  yamlToJson: (yaml: YamlText): { json: string } | { invalid: string } => {
    try {
      return { json: yamlToJson(yaml) }
    } catch (error) {
      if (!(error instanceof InvalidDocument)) throw error
      return { invalid: error.message }
    }
  },

  mcpTools: (source: McpSourceTools) => readMcpTools(source),

  check: (flow: FlowSource) => {
    const { ir, diagnostics, warnings, definition } = compiled(flow)
    if (ir === undefined) return { diagnostics, warnings }
    const { name } = ir.document
    return { diagnostics, warnings, name, facts: flowSummary(ir), references: referencesOf(ir, definition) }
  },

  /** `head` is the flow without its tasks, which are in `text` alone. */
  compile: (flow: FlowSource) => {
    const { ir, diagnostics, warnings, definition } = compiled(flow)
    if (ir === undefined) return { diagnostics }
    const text = canonical(ir)
    const sha256 = createHash('sha256').update(text).digest('hex')
    const { onError: _onError, finally: _finally, ...rest } = ir
    const head: FlowIR = { ...rest, do: [] }
    return { diagnostics, warnings, flow: { head, text, sha256, references: referencesOf(ir, definition) } }
  },

  /** `json` is the serialized graph, so that a large one costs the main thread nothing. */
  graph: (flow: FlowSource): Invalid | { json: string } => {
    const { ir, diagnostics, definition } = compiled(flow)
    if (ir === undefined) return { diagnostics }
    const graph = graphOf(ir, definition)
    return { json: JSON.stringify({ mermaid: mermaidOf(graph), nodes: graph.nodes, edges: graph.edges }) }
  },

  /** `json` is the serialized outcome. */
  simulate: ({ simulation, ...flow }: FlowSource & { simulation: Simulation }) => {
    const { ir, diagnostics } = compiled(flow)
    if (ir === undefined) return { diagnostics } satisfies Invalid
    try {
      return { json: JSON.stringify(simulate(ir, simulation)) }
    } catch (error) {
      if (!(error instanceof SimulationInvalid)) throw error
      return { refused: { detail: error.message, pointer: error.pointer } } satisfies Refused
    }
  },
} as const

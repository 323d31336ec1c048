/** The tasks of worker threads, from plain data to plain data. */

import { createHash } from 'node:crypto'
import { type Catalogue, compile } from '../../../flows-dsl/compile/compile.ts'
import { nodeAt } from '../../../flows-dsl/compile/source-nodes.ts'
import { graphOf } from '../../../flows-dsl/graph/build-graph.ts'
import { mermaidOf } from '../../../flows-dsl/graph/mermaid.ts'
import { canonical, type FlowIR } from '../../../flows-dsl/ir.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { type Simulation, SimulationInvalid } from '../../../flows-dsl/simulator/types.ts'
import { LIMITS } from '../../core/limits.ts'
import { evaluate, type Validation } from '../collections/schemas/evaluate-schema.ts'
import { flowSummary } from '../flows/flow-summary.ts'

/** A flow's definition, and the functions that it may call. */
interface FlowSource {
  readonly source: string
  readonly catalogue: Catalogue
}

/** A definition that is not valid. */
type Invalid = Pick<ReturnType<typeof compile>, 'faults'>

/** Answers or events for a simulation that do not fit the flow. */
interface Refused {
  readonly refused: { readonly detail: string; readonly pointer: string }
}

const compiled = ({ source, catalogue }: FlowSource) =>
  compile(source, { catalogue, sizeBytesMax: LIMITS.flowSourceBytesMax })

export const TASKS = {
  validate: (validation: Validation) => evaluate(validation),

  check: (flow: FlowSource) => {
    const { ir, faults, warnings } = compiled(flow)
    return { faults, warnings, ...(ir !== undefined && { name: ir.document.name, facts: flowSummary(ir) }) }
  },

  /** `head` is the flow without its tasks, which are in `text` alone. */
  compile: (flow: FlowSource) => {
    const { ir, faults, warnings, definition } = compiled(flow)
    if (ir === undefined) return { faults }
    const text = canonical(ir)
    const sha256 = createHash('sha256').update(text).digest('hex')
    const head: FlowIR = { ...ir, do: [] }
    const secrets = (ir.secrets ?? []).map((name, index) => {
      const pointer = `/use/secrets/${index}`
      const { line, column } = nodeAt(definition, pointer)?.at ?? definition
      return { name, pointer, line, column }
    })
    return { faults, warnings, flow: { head, text, sha256, secrets } }
  },

  /** `json` is the serialized graph, so that a large one costs the main thread nothing. */
  graph: (flow: FlowSource): Invalid | { json: string } => {
    const { ir, faults, definition } = compiled(flow)
    if (ir === undefined) return { faults }
    const graph = graphOf(ir, definition)
    return { json: JSON.stringify({ mermaid: mermaidOf(graph), nodes: graph.nodes, edges: graph.edges }) }
  },

  /** `json` is the serialized outcome. */
  simulate: ({ simulation, ...flow }: FlowSource & { simulation: Simulation }) => {
    const { ir, faults } = compiled(flow)
    if (ir === undefined) return { faults } satisfies Invalid
    try {
      return { json: JSON.stringify(simulate(ir, simulation)) }
    } catch (error) {
      if (!(error instanceof SimulationInvalid)) throw error
      return { refused: { detail: error.message, pointer: error.pointer } } satisfies Refused
    }
  },
} as const

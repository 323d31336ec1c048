/** Builds the graph of a compiled flow. */

import { nodeAt, type SourceNode } from '../compile/source-nodes.ts'
import type { FlowIR, TaskNode } from '../ir.ts'
import { clip } from '../json.ts'
import { taskType } from '../tasks/index.ts'
import {
  controlFlowOf,
  type Graph,
  type GraphEdge,
  type GraphNode,
  type NestedList,
  type OutgoingEdge,
} from './control-flow.ts'

type Container = Pick<GraphNode, 'parent' | 'list'>

/** The maximum length of a summary or a condition. */
const LABEL_BYTES_MAX = 200

/**
 * The graph of a compiled flow. Nodes are in the order of the definition, between `start` and `end`. Tasks of extensions
 * are left out, because they have no position of their own.
 * @param definition the source of the flow: conditions are shown in the author's words
 */
export function graphOf(ir: FlowIR, definition: SourceNode): Graph {
  return new GraphBuilder(definition).build(ir)
}

class GraphBuilder {
  readonly #definition: SourceNode
  readonly #nodes: GraphNode[] = []
  readonly #edges = new Map<string, GraphEdge>()
  /** The node to which `end` leads. */
  #end: 'finally' | 'end' = 'end'

  constructor(definition: SourceNode) {
    this.#definition = definition
  }

  build({ document, do: tasks, onError, finally: last }: FlowIR): Graph {
    const label = clip(document.title ?? document.name, LABEL_BYTES_MAX)
    this.#nodes.push({ id: 'start', kind: 'start', name: 'start', label })
    if (last !== undefined) this.#end = 'finally'
    this.#link({ from: 'start', kind: 'next' }, tasks[0]?.pointer ?? this.#end)
    for (const edge of this.#list(tasks, {})) this.#link(edge, this.#end)
    if (onError !== undefined) {
      this.#link({ from: 'start', kind: 'catch', label: 'faulted' }, 'onError')
      this.#handler('onError', onError)
    }
    this.#end = 'end'
    if (last !== undefined) this.#handler('finally', last)
    this.#nodes.push({ id: 'end', kind: 'end', name: 'end', label: 'end' })
    return { nodes: this.#nodes, edges: [...this.#edges.values()] }
  }

  /** Adds tasks of the flow's end behind a node of their own. */
  #handler(name: 'onError' | 'finally', tasks: readonly TaskNode[]): void {
    this.#nodes.push({ id: name, kind: name, name, label: name })
    this.#link({ from: name, kind: 'next' }, tasks[0]?.pointer ?? this.#end)
    for (const edge of this.#list(tasks, {})) this.#link(edge, this.#end)
  }

  /** Adds a sequence of tasks. @returns the edges that leave the list */
  #list(tasks: readonly TaskNode[], container: Container): OutgoingEdge[] {
    const out: OutgoingEdge[] = []
    for (const [index, task] of tasks.entries()) {
      for (const edge of this.#task(task, container)) {
        const to = targetOf(edge, tasks, index, this.#end)
        if (to !== undefined) this.#link(edge, to)
        else out.push(leaveList(edge))
      }
    }
    return out
  }

  /** Adds a task and the tasks within it. @returns its outgoing edges */
  #task(task: TaskNode, container: Container): OutgoingEdge[] {
    this.#node(task, container)
    const { edges, lists } = controlFlowOf(task, (pointer) => this.#textAt(pointer))
    const inner = lists.flatMap((list) => this.#inner(task, list))
    const out = [...edges, ...inner].map((edge) => ({ ...edge, next: edge.next ?? task.next }))
    // A skipped task continues with the next one, regardless of its `then`.
    const [only, ...more] = out
    const isPlain = more.length === 0 && only?.kind === 'next' && only.next === undefined
    if (task.if === undefined || (isPlain && only.from === task.pointer)) return out
    return [...out, { from: task.pointer, kind: 'next', label: 'skipped', next: 'continue' }]
  }

  /** Adds a list within a task. @returns the edges out of it that continue after the task */
  #inner({ pointer }: TaskNode, { name, tasks, entries, join, atEnd, next }: NestedList): OutgoingEdge[] {
    const container = { parent: pointer, list: name }
    const lists = join ? tasks.map((one) => [one]) : [tasks]
    for (const [first] of lists)
      for (const entry of entries) this.#link({ from: pointer, ...entry }, first?.pointer ?? pointer)
    const edges = lists.flatMap((list) => this.#list(list, container))
    if (atEnd === 'repeat')
      for (const edge of edges) this.#link(edge.kind === 'next' ? { ...edge, kind: 'loop' } : edge, pointer)
    return atEnd === 'continue' ? edges.map((edge) => ({ ...edge, next })) : []
  }

  #node({ pointer, kind, name, body }: TaskNode, container: Container): void {
    const at = nodeAt(this.#definition, pointer)?.at
    const location = at && { line: at.line, column: at.column }
    const label = clip(taskType(kind)?.summary(body) ?? kind, LABEL_BYTES_MAX)
    this.#nodes.push({ id: pointer, kind, name, label, pointer, ...location, ...container })
  }

  /** Adds an edge. Equal edges are one. */
  #link({ from, kind, label, next }: OutgoingEdge, to: string): void {
    const edgeKind = kind === 'next' && next === 'end' ? 'end' : kind
    const edge = { from, to, kind: edgeKind, ...(label !== undefined && { label }) }
    this.#edges.set(JSON.stringify(edge), edge)
  }

  #textAt(pointer: string): string | undefined {
    const value = nodeAt(this.#definition, pointer)?.value
    if (value?.kind !== 'scalar') return undefined
    const text = String(value.value)
    return clip((/^\s*\$\{([\s\S]*)\}\s*$/.exec(text)?.[1] ?? text).trim(), LABEL_BYTES_MAX)
  }
}

/** The target of an edge within its list; undefined if it leaves the list. */
function targetOf(
  { next = 'continue' }: OutgoingEdge,
  tasks: readonly TaskNode[],
  index: number,
  end: string,
): string | undefined {
  if (next === 'end') return end
  if (next === 'exit') return undefined
  if (next === 'continue') return tasks[index + 1]?.pointer
  return tasks.find(({ name }) => name === next)?.pointer
}

/** The edge outside its list, where the directive no longer applies; an `exit` remains visible in its kind. */
function leaveList({ from, kind, label, next }: OutgoingEdge): OutgoingEdge {
  return { from, kind: kind === 'next' && next === 'exit' ? 'exit' : kind, label }
}

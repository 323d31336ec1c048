/** Builds the graph of a compiled flow. */

import { nodeAt, type SourceNode } from '../compile/source-nodes.ts'
import type { FlowIR, TaskNode } from '../ir.ts'
import { clip } from '../json.ts'
import { taskType } from '../tasks/index.ts'
import {
  type Graph,
  type GraphEdge,
  type GraphNode,
  type InnerList,
  shapeOf,
  type Way,
} from './control-flow.ts'

type Inside = Pick<GraphNode, 'parent' | 'list'>

/** Of a summary or a condition. */
const LABEL_BYTES_MAX = 200

/**
 * The graph of a compiled flow. Nodes stand in the order of the definition, between `start` and `end`; tasks of
 * extensions are left out, since they stand in no place of their own.
 * @param definition what the flow was compiled from: conditions are told in the author's words
 */
export function graphOf(ir: FlowIR, definition: SourceNode): Graph {
  return new Drawing(definition).draw(ir)
}

class Drawing {
  readonly #definition: SourceNode
  readonly #nodes: GraphNode[] = []
  readonly #edges = new Map<string, GraphEdge>()

  constructor(definition: SourceNode) {
    this.#definition = definition
  }

  draw({ document, do: tasks }: FlowIR): Graph {
    const label = clip(document.title ?? document.name, LABEL_BYTES_MAX)
    this.#nodes.push({ id: 'start', kind: 'start', name: 'start', label })
    this.#link({ from: 'start', kind: 'next' }, tasks[0]?.pointer ?? 'end')
    for (const way of this.#list(tasks, {})) this.#link(way, 'end')
    this.#nodes.push({ id: 'end', kind: 'end', name: 'end', label: 'end' })
    return { nodes: this.#nodes, edges: [...this.#edges.values()] }
  }

  /** Draws tasks that follow each other. @returns the ways that lead out of the list */
  #list(tasks: readonly TaskNode[], inside: Inside): Way[] {
    const out: Way[] = []
    for (const [index, task] of tasks.entries()) {
      for (const way of this.#task(task, inside)) {
        const to = targetOf(way, tasks, index)
        if (to !== undefined) this.#link(way, to)
        else out.push(leaving(way))
      }
    }
    return out
  }

  /** Draws a task and all that stands in it. @returns the ways that lead on from it */
  #task(task: TaskNode, inside: Inside): Way[] {
    this.#node(task, inside)
    const { ways, lists } = shapeOf(task, (pointer) => this.#textAt(pointer))
    const inner = lists.flatMap((list) => this.#inner(task, list))
    const out = [...ways, ...inner].map((way) => ({ ...way, next: way.next ?? task.next }))
    // What is skipped goes on to the next task, whatever its `then` says.
    const [only, ...more] = out
    const goesOn = more.length === 0 && only?.kind === 'next' && only.next === undefined
    if (task.if === undefined || (goesOn && only.from === task.pointer)) return out
    return [...out, { from: task.pointer, kind: 'next', label: 'skipped', next: 'continue' }]
  }

  /** Draws a list within a task. @returns the ways out of it that lead on from the task */
  #inner({ pointer }: TaskNode, { name, tasks, entries, apart, goes, next }: InnerList): Way[] {
    const inside = { parent: pointer, list: name }
    const lists = apart ? tasks.map((one) => [one]) : [tasks]
    for (const [first] of lists)
      for (const entry of entries) this.#link({ from: pointer, ...entry }, first?.pointer ?? pointer)
    const ways = lists.flatMap((list) => this.#list(list, inside))
    if (goes === 'back')
      for (const way of ways) this.#link(way.kind === 'next' ? { ...way, kind: 'loop' } : way, pointer)
    return goes === 'on' ? ways.map((way) => ({ ...way, next })) : []
  }

  #node({ pointer, kind, name, body }: TaskNode, inside: Inside): void {
    const at = nodeAt(this.#definition, pointer)?.at
    const place = at && { line: at.line, column: at.column }
    const label = clip(taskType(kind)?.summary(body) ?? kind, LABEL_BYTES_MAX)
    this.#nodes.push({ id: pointer, kind, name, label, pointer, ...place, ...inside })
  }

  /** Two ways that are alike are one edge. */
  #link({ from, kind, label, next }: Way, to: string): void {
    const why = kind === 'next' && next === 'end' ? 'end' : kind
    const edge = { from, to, kind: why, ...(label !== undefined && { label }) }
    this.#edges.set(JSON.stringify(edge), edge)
  }

  #textAt(pointer: string): string | undefined {
    const value = nodeAt(this.#definition, pointer)?.value
    if (value?.kind !== 'scalar') return undefined
    const text = String(value.value)
    return clip((/^\s*\$\{([\s\S]*)\}\s*$/.exec(text)?.[1] ?? text).trim(), LABEL_BYTES_MAX)
  }
}

/** Where a way leads within its list; undefined where it leaves it. */
function targetOf({ next = 'continue' }: Way, tasks: readonly TaskNode[], index: number): string | undefined {
  if (next === 'end') return 'end'
  if (next === 'exit') return undefined
  if (next === 'continue') return tasks[index + 1]?.pointer
  return tasks.find(({ name }) => name === next)?.pointer
}

/** The directive has been followed; that it was `exit` is still to be told. */
function leaving({ from, kind, label, next }: Way): Way {
  return { from, kind: kind === 'next' && next === 'exit' ? 'exit' : kind, label }
}

/** Types of a graph: a node for each task, an edge for each way from one to another. */

/** Tasks have a place in the source; `parent` and `list` say in which list of which task one stands. */
export interface GraphNode {
  /** The JSON pointer of the task, or `start`, or `end`. */
  readonly id: string
  readonly kind: string
  readonly name: string
  /** One line that says what it will do. */
  readonly label: string
  readonly pointer?: string
  readonly line?: number
  readonly column?: number
  readonly parent?: string
  readonly list?: string
}

/** Why an edge is taken. `loop` leads into the tasks of a loop, and from their end back to it. */
export const EDGE_KINDS = [
  'next',
  'case',
  'default',
  'catch',
  'retry',
  'exit',
  'end',
  'branch',
  'loop',
  'compensate',
] as const

export type EdgeKind = (typeof EDGE_KINDS)[number]

export interface GraphEdge {
  readonly from: string
  readonly to: string
  readonly kind: EdgeKind
  readonly label?: string
}

export interface Graph {
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
}

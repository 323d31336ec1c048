/** Writes a graph as Mermaid, escaping names and expressions so that none of them has a meaning there. */

import { fieldOf } from '../json.ts'
import type { EdgeKind, Graph, GraphEdge, GraphNode } from './control-flow.ts'

/** The brackets of a node by kind of task. */
const SHAPES: Readonly<Record<string, readonly [open: string, close: string]>> = {
  start: ['([', '])'],
  end: ['([', '])'],
  onError: ['([', '])'],
  finally: ['([', '])'],
  switch: ['{', '}'],
  do: ['{{', '}}'],
  for: ['{{', '}}'],
  fork: ['{{', '}}'],
  try: ['{{', '}}'],
  wait: ['(', ')'],
  listen: ['(', ')'],
  approve: ['(', ')'],
  raise: ['[/', '/]'],
}

/** Edges that are not part of the regular flow. */
const DOTTED: ReadonlySet<EdgeKind> = new Set(['catch', 'retry', 'compensate'])

/** Kinds that are not written on their edges. */
const UNLABELLED: ReadonlySet<EdgeKind> = new Set(['next', 'case', 'branch', 'loop'])

/**
 * The graph as `flowchart TD`. A task that contains tasks is a subgraph whose first node is the task itself. Equal graphs
 * have equal texts.
 */
export function mermaidOf(graph: Graph): string {
  const numbers = new Map(graph.nodes.map(({ id }, index) => [id, `n${index}`]))
  const idOf = (id: string) => numbers.get(id) ?? 'n0'
  const children = childrenOf(graph.nodes)
  const nodes = linesOf(children.get(undefined) ?? [], { children, idOf, indent: '  ' })
  const edges = graph.edges.map((edge) => `  ${edgeLine(edge, idOf)}`)
  return `${['flowchart TD', ...nodes, ...edges].join('\n')}\n`
}

interface RenderContext {
  readonly children: ReadonlyMap<string | undefined, readonly GraphNode[]>
  readonly idOf: (id: string) => string
  readonly indent: string
}

function childrenOf(nodes: readonly GraphNode[]): RenderContext['children'] {
  const children = new Map<string | undefined, GraphNode[]>()
  for (const node of nodes) {
    const siblings = children.get(node.parent) ?? []
    siblings.push(node)
    children.set(node.parent, siblings)
  }
  return children
}

function linesOf(nodes: readonly GraphNode[], context: RenderContext): string[] {
  return nodes.flatMap((node) => {
    const within = context.children.get(node.id)
    const inner = { ...context, indent: `${context.indent}  ` }
    if (within === undefined) return [context.indent + nodeLine(node, context)]
    const title = `${context.indent}subgraph s${context.idOf(node.id)} ["${escaped(node.name)}"]`
    const lines = [inner.indent + nodeLine(node, context), ...linesOf(within, inner)]
    return [title, ...lines, `${context.indent}end`]
  })
}

function nodeLine({ id, kind, name, label }: GraphNode, { idOf }: RenderContext): string {
  const [open, close] = fieldOf(SHAPES, kind) ?? ['[', ']']
  const text = ['start', 'end', 'onError', 'finally'].includes(kind)
    ? escaped(label)
    : `${escaped(name)}<br/>${escaped(label)}`
  return `${idOf(id)}${open}"${text}"${close}`
}

function edgeLine({ from, to, kind, label }: GraphEdge, idOf: RenderContext['idOf']): string {
  const words = [UNLABELLED.has(kind) ? undefined : kind, label].filter((word) => word !== undefined)
  const arrow = DOTTED.has(kind) ? '-.->' : '-->'
  const text = words.length === 0 ? '' : `|"${escaped(words.join(': '))}"|`
  return `${idOf(from)} ${arrow}${text} ${idOf(to)}`
}

/**
 * Escapes the text of a label: every sign that Mermaid, Markdown or HTML could interpret is written by its number. Two
 * sequences would still be interpreted: `ﬂ°`, which Mermaid uses itself, and `$$`, which begins mathematics.
 */
function escaped(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim() || ' '
  const harmless = line.replaceAll('ﬂ', 'fl').replaceAll(/\$(?=\$)/g, '$ ')
  return harmless.replaceAll(/[^\p{L}\p{N} ,]/gu, (sign) =>
    /\p{C}/u.test(sign) ? '#65533;' : `#${sign.codePointAt(0)};`,
  )
}

/** Writes a graph as Mermaid, escaping names and expressions so that none of them has a meaning there. */

import type { EdgeKind, Graph, GraphEdge, GraphNode } from './control-flow.ts'

/** How the shape of a node is opened and closed, by kind of task. */
const SHAPES: Readonly<Record<string, readonly [open: string, close: string]>> = {
  start: ['([', '])'],
  end: ['([', '])'],
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

/** Edges that are no part of the way that was planned. */
const DOTTED: ReadonlySet<EdgeKind> = new Set(['catch', 'retry', 'compensate'])

/** Kinds that need no word where they have no label. */
const SILENT: ReadonlySet<EdgeKind> = new Set(['next', 'case', 'branch', 'loop'])

/**
 * The graph as `flowchart TD`, the same text for the same graph: a subgraph for each task that has tasks within it,
 * which begins with the task itself.
 */
export function mermaidOf(graph: Graph): string {
  const numbers = new Map(graph.nodes.map(({ id }, index) => [id, `n${index}`]))
  const idOf = (id: string) => numbers.get(id) ?? 'n0'
  const children = childrenOf(graph.nodes)
  const nodes = linesOf(children.get(undefined) ?? [], { children, idOf, indent: '  ' })
  const edges = graph.edges.map((edge) => `  ${edgeLine(edge, idOf)}`)
  return `${['flowchart TD', ...nodes, ...edges].join('\n')}\n`
}

interface Page {
  readonly children: ReadonlyMap<string | undefined, readonly GraphNode[]>
  readonly idOf: (id: string) => string
  readonly indent: string
}

function childrenOf(nodes: readonly GraphNode[]): Page['children'] {
  const children = new Map<string | undefined, GraphNode[]>()
  for (const node of nodes) {
    const siblings = children.get(node.parent) ?? []
    siblings.push(node)
    children.set(node.parent, siblings)
  }
  return children
}

function linesOf(nodes: readonly GraphNode[], page: Page): string[] {
  return nodes.flatMap((node) => {
    const within = page.children.get(node.id)
    const inner = { ...page, indent: `${page.indent}  ` }
    if (within === undefined) return [page.indent + nodeLine(node, page)]
    const title = `${page.indent}subgraph s${page.idOf(node.id)} ["${escaped(node.name)}"]`
    const lines = [inner.indent + nodeLine(node, page), ...linesOf(within, inner)]
    return [title, ...lines, `${page.indent}end`]
  })
}

function nodeLine({ id, kind, name, label }: GraphNode, { idOf }: Page): string {
  const [open, close] = (Object.hasOwn(SHAPES, kind) ? SHAPES[kind] : undefined) ?? ['[', ']']
  const text = kind === 'start' || kind === 'end' ? escaped(label) : `${escaped(name)}<br/>${escaped(label)}`
  return `${idOf(id)}${open}"${text}"${close}`
}

function edgeLine({ from, to, kind, label }: GraphEdge, idOf: Page['idOf']): string {
  const words = [SILENT.has(kind) ? undefined : kind, label].filter((word) => word !== undefined)
  const arrow = DOTTED.has(kind) ? '-.->' : '-->'
  const text = words.length === 0 ? '' : `|"${escaped(words.join(': '))}"|`
  return `${idOf(from)} ${arrow}${text} ${idOf(to)}`
}

/**
 * Text as a label: whatever Mermaid, its Markdown or HTML could take for more is written by its number. Two things
 * Mermaid finds behind numbers too: `ﬂ°`, by which it marks them itself, and `$$`, which begins mathematics.
 */
function escaped(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim() || ' '
  const harmless = line.replaceAll('ﬂ', 'fl').replaceAll(/\$(?=\$)/g, '$ ')
  return harmless.replaceAll(/[^\p{L}\p{N} ,]/gu, (sign) =>
    /\p{C}/u.test(sign) ? '#65533;' : `#${sign.codePointAt(0)};`,
  )
}

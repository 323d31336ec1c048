/**
 * The graph of a flow has all its tasks and every transition of an execution, and no label breaks out of
 * Mermaid.
 */

import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { graphOf } from '../../../flows-dsl/graph/build-graph.ts'
import type { Graph, GraphNode } from '../../../flows-dsl/graph/control-flow.ts'
import { mermaidOf } from '../../../flows-dsl/graph/mermaid.ts'
import { CATALOGUE } from '../../../src/features/data-operations.ts'
import { repeated } from '../../support/stack/soak.ts'
import { flowTexts } from './generated-flows.ts'
import { trace } from './scenario.ts'

/** The machine may be busy. */
const RUNS = { numRuns: repeated(30, 100) }

function graphFrom(source: string): Graph {
  const { ir, definition, diagnostics } = compile(source, { catalogue: CATALOGUE })
  if (ir === undefined) throw new Error(JSON.stringify(diagnostics))
  return graphOf(ir, definition)
}

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"

/** Edges as `from -kind:label-> to`, each task by its name. */
function edgesOf(source: string): string[] {
  const { nodes, edges } = graphFrom(`${HEAD}${source}`)
  const names = new Map(nodes.map(({ id, name }) => [id, name]))
  return edges.map(({ from, to, kind, label }) => {
    const why = label === undefined ? kind : `${kind}: ${label}`
    return `${names.get(from)} -${why}-> ${names.get(to)}`
  })
}

test('graph: jumps, exit, end, and cases in the words of the author', () => {
  const edges = edgesOf(`do:
  - a: { switch: [{ one: { when: '\${ .n > 1 }', then: c } }, { two: { when: .x, then: end } }] }
  - b: { set: { n: 1 }, then: a }
  - c: { do: [{ d: { set: { n: 2 }, if: .n, then: exit } }, { e: { set: { n: 3 } } }], then: b }
  - f: { raise: { error: { type: urn:x, status: 400 } } }`)
  expect(edges).toEqual(
    [
      'start -next-> a',
      'a -case: .n > 1-> c',
      'a -case: .x-> end',
      'a -default-> b',
      'b -next-> a',
      'c -next-> d',
      'd -skipped-> e',
      'd -exit-> b',
      'e -next-> b',
    ].map((edge) => edge.replace('-skipped-', '-next: skipped-')),
  )
})

test('graph: loops, branches and catches', () => {
  const edges = edgesOf(`do:
  - each: { for: { each: line, in: .lines }, while: .ok, do: [{ add: { set: { n: 1 } } }] }
  - both: { fork: { branches: [{ left: { set: { n: 1 } } }, { right: { set: { n: 1 }, then: end } }] } }
  - get:
      try: [{ ask: { wait: PT1S } }]
      catch:
        errors: { with: { status: 503 } }
        when: .again
        retry: { delay: PT1S, limit: { attempt: { count: 3 } } }
        do: [{ give: { set: { n: 0 } } }]
        then: each`)
  expect(edges).toEqual([
    'start -next-> each',
    'each -loop: each line while .ok-> add',
    'add -loop-> each',
    'each -next-> both',
    'both -branch-> left',
    'both -branch-> right',
    'right -end-> end',
    'left -next-> get',
    'get -next-> ask',
    'get -retry: at most 3-> ask',
    'get -catch: status 503, .again-> give',
    'give -next-> each',
    'ask -next-> end',
  ])
})

test('graph: waits, compensation and components', () => {
  const edges = edgesOf(`use:
  functions: { ask: { do: [{ inner: { wait: PT1S } }] } }
do:
  - hear: { listen: { to: { any: [] } }, foreach: { item: event, do: [{ note: { set: { n: 1 } } }] } }
  - only: { listen: { to: { any: [] } }, foreach: { output: { as: .id } } }
  - pay: { call: ask, compensate: [{ refund: { wait: PT1S, then: exit } }] }
  - again: { call: ask, if: .more, then: hear }
  - all: { for: { in: .all, concurrency: 4 }, do: [{ one: { wait: PT1S } }] }`)
  expect(edges).toEqual([
    'start -next-> hear',
    'hear -loop-> event',
    'event -next-> note',
    'note -loop-> hear',
    'hear -next-> only',
    'only -loop-> item',
    'item -loop-> only',
    'only -next-> pay',
    'pay -compensate-> refund',
    'pay -next-> again',
    'again -next-> hear',
    'again -next: skipped-> all',
    'all -loop: each item, 4 at a time-> one',
    'one -loop-> all',
    'all -next-> end',
  ])
})

test('graph: a caught error that is not handled continues with the retries that do not handle it', () => {
  const attempt = (more: string) =>
    edgesOf(`do:
  - get: { try: [{ ask: { wait: PT1S } }], catch: { errors: { with: { status: 1 } }${more} } }
  - on: { set: { n: 1 } }`)
  expect(attempt('')).toContain('get -catch: status 1-> on')
  expect(attempt(', then: end')).toContain('get -catch: status 1-> end')
  expect(attempt(', retry: { delay: PT1S }')).toEqual([
    'start -next-> get',
    'get -next-> ask',
    'get -retry-> ask',
    'ask -next-> on',
    'on -next-> end',
  ])
})

interface AnyTask {
  readonly do?: readonly Named[]
  readonly fork?: { readonly branches: readonly Named[] }
  readonly try?: readonly Named[]
  readonly catch?: { readonly do?: readonly Named[] }
}

type Named = Readonly<Record<string, AnyTask>>

/** Every task of a JSON source, by a walk that only knows where lists of tasks are. */
function tasksIn(list: readonly Named[], pointer: string): [pointer: string, name: string][] {
  return list.flatMap((item, index) => {
    const [name = '', task = {}] = Object.entries(item)[0] ?? []
    const at = `${pointer}/${index}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    const inner = [
      ...tasksIn(task.do ?? [], `${at}/do`),
      ...tasksIn(task.fork?.branches ?? [], `${at}/fork/branches`),
      ...tasksIn(task.try ?? [], `${at}/try`),
      ...tasksIn(task.catch?.do ?? [], `${at}/catch/do`),
    ]
    return [[at, name] as [string, string], ...inner]
  })
}

test('every task: is one node at its location, and edges join nodes', () => {
  fc.assert(
    fc.property(flowTexts(true), (source) => {
      const { nodes, edges } = graphFrom(source)
      const tasks = tasksIn(JSON.parse(source).do, '/do')
      expect(nodes.map(({ id, name }) => [id, name])).toEqual([['start', 'start'], ...tasks, ['end', 'end']])
      const lines = source.split('\n')
      for (const { line = 1, column = 1, name, pointer } of nodes)
        if (pointer) expect(lines[line - 1]?.slice(column - 1)).toContain(JSON.stringify(name))
      const ids = new Set(nodes.map(({ id }) => id))
      for (const { from, to } of edges) expect([ids.has(from), ids.has(to)]).toEqual([true, true])
      for (const { parent } of nodes) expect(parent === undefined || ids.has(parent)).toBe(true)
      expect(new Set(edges.map((edge) => JSON.stringify(edge))).size).toBe(edges.length)
    }),
    RUNS,
  )
})

/**
 * Possible next tasks of an execution: a loop is entered once and left from its head, which is not entered
 * again.
 */
function nextOf(graph: Graph, from: string, isFaulted: boolean): Set<string> {
  const kinds = new Map(graph.nodes.map(({ id, kind }) => [id, kind]))
  const parents = new Map(graph.nodes.map(({ id, parent }) => [id, parent]))
  const next = new Set<string>()
  const follow = (id: string, kinds_: (kind: string) => boolean) => {
    for (const { from: source, to, kind } of graph.edges) {
      if (source !== id || !kinds_(kind) || next.has(to)) continue
      next.add(to)
      if (kinds.get(to) === 'for') follow(to, () => true)
    }
  }
  if (!isFaulted) follow(from, (kind) => kind !== 'catch' && kind !== 'retry')
  else
    for (let at = parents.get(from); at !== undefined; at = parents.get(at))
      if (kinds.get(at) === 'try') follow(at, (kind) => kind === 'catch' || kind === 'retry')
  return next
}

test('every step of an execution: is an edge', async () => {
  const takenEdges = new Set<string>()
  await fc.assert(
    fc.asyncProperty(flowTexts(false), async (source) => {
      const graph = graphFrom(source)
      const { result, events } = await trace(source, { input: {}, stepsMax: 60 })
      let at = 'start'
      let isFaulted = false
      for (const { phase, step } of events) {
        if (phase === 'faulted') isFaulted = true
        if (phase !== 'started' && phase !== 'skipped') continue
        expect([...nextOf(graph, at, isFaulted)], `${at} → ${step.pointer}`).toContain(step.pointer)
        ;[at, isFaulted] = [step.pointer, false]
      }
      if (result.status === 'completed') expect([...nextOf(graph, at, isFaulted)]).toContain('end')
      takenEdges.add(result.status)
    }),
    RUNS,
  )
  expect([...takenEdges].sort()).toEqual(['completed', 'faulted'])
})

const LABEL = '(?:[\\p{L}\\p{N} ,]|<br/>|#\\d+;)+'
const NODE = new RegExp(
  `^(n\\d+)(?:\\(\\["${LABEL}"\\]\\)|\\{\\{"${LABEL}"\\}\\}|\\{"${LABEL}"\\}|\\("${LABEL}"\\)|\\["${LABEL}"\\]|\\[/"${LABEL}"/\\])$`,
  'u',
)
const EDGE = new RegExp(`^(n\\d+) -(?:-|\\.-)>(?:\\|"${LABEL}"\\|)? (n\\d+)$`, 'u')
const GROUP = new RegExp(`^subgraph s(n\\d+) \\["${LABEL}"\\]$`, 'u')

/** The subset of Mermaid flowcharts that is written here. @returns ids of nodes with their groups */
function parse(text: string): { nodes: Map<string, string | undefined>; edges: string[][] } {
  const [first, ...lines] = text.trimEnd().split('\n')
  expect(first).toBe('flowchart TD')
  const nodes = new Map<string, string | undefined>()
  const edges: string[][] = []
  const open: string[] = []
  for (const line of lines.map((one) => one.trim())) {
    const [, node] = NODE.exec(line) ?? []
    const [, from, to] = EDGE.exec(line) ?? []
    const [, group] = GROUP.exec(line) ?? []
    if (group !== undefined) open.push(group)
    else if (line === 'end') expect(open.pop()).toBeDefined()
    else if (from !== undefined && to !== undefined) edges.push([from, to])
    else if (node !== undefined && !nodes.has(node)) nodes.set(node, open.at(-1))
    else throw new Error(`No line of a flowchart: ${line}`)
  }
  expect(open).toEqual([])
  return { nodes, edges }
}

test('Mermaid: any names: has the same nodes, groups and edges', () => {
  fc.assert(
    fc.property(flowTexts(true), (source) => {
      const graph = graphFrom(source)
      const text = mermaidOf(graph)
      expect(mermaidOf(graphFrom(source))).toBe(text)
      const { nodes, edges } = parse(text)
      const idOf = new Map(graph.nodes.map(({ id }, index) => [id, `n${index}`]))
      const groups = new Set(graph.nodes.map(({ parent }) => parent))
      const groupOf = ({ id, parent }: GraphNode) => idOf.get(groups.has(id) ? id : (parent ?? ''))
      expect([...nodes].sort()).toEqual(graph.nodes.map((node) => [idOf.get(node.id), groupOf(node)]).sort())
      expect(edges).toEqual(graph.edges.map(({ from, to }) => [idOf.get(from), idOf.get(to)]))
    }),
    RUNS,
  )
})

test('Mermaid label: shows its text, and nothing in it is markup', () => {
  const text = mermaidOf(graphFrom(`${HEAD}do: [{ '<b>"x" $$y$$ %%{': { set: { n: 1 } } }]`))
  expect(text).toContain('n1["#60;b#62;#34;x#34; #36; #36;y#36; #36; #37;#37;#123;<br/>set n"]')
  // Mermaid encodes entities as ﬂ°°60¶ß and decodes any such text.
  const marked = mermaidOf(graphFrom(`${HEAD}do: [{ ﬂ°°60¶ß: { set: { n: 1 } } }]`))
  expect(marked).toContain('n1["fl#176;#176;60#182;ß<br/>set n"]')
})

test('flows of the corpus and of the examples: have a connected graph', () => {
  for (const folder of ['test/conformance/flows/corpus', 'flows-dsl/examples']) {
    for (const file of readdirSync(folder).filter((one) => /(?<!\.cases)\.yaml$/.test(one))) {
      const graph = graphFrom(readFileSync(`${folder}/${file}`, 'utf8'))
      parse(mermaidOf(graph))
      const reached = new Set(graph.edges.map(({ to }) => to))
      const lost = graph.nodes.filter(({ id, pointer }) => pointer !== undefined && !reached.has(id))
      expect([file, lost.map(({ id }) => id)]).toEqual([file, KNOWN_LOST[file] ?? []])
    }
  }
})

/** Tasks that a flow skips on purpose. */
const KNOWN_LOST: Readonly<Record<string, readonly string[]>> = {
  'for-directives.yaml': ['/do/1/never'],
  'switch-none.yaml': ['/do/1/between'],
}

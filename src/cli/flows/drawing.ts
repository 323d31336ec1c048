/** Draws an execution as a tree: a mark for how each task stands, what it does, how long it took, and why it failed. */

import { type Output, paint } from './diagnostics.ts'

export interface Head {
  readonly flow: string
  readonly version: number
  readonly id: string
  readonly status: string
  readonly startedMs: number
  /** Why nothing happens. */
  readonly note?: string | undefined
}

type Style = Parameters<typeof paint>[0]

const MARKS: Readonly<Record<string, readonly [mark: string, style: Style]>> = {
  completed: ['✓', 'green'],
  faulted: ['✗', 'red'],
  running: ['●', 'cyan'],
  pending: ['○', 'gray'],
  waiting: ['◌', 'blue'],
  held: ['‖', 'yellow'],
  suspended: ['‖', 'yellow'],
  skipped: ['–', 'gray'],
  cancelled: ['⊘', 'yellow'],
}

/** How a status is shown. */
export function markOf(status: string, output: Output): string {
  const [mark, style] = MARKS[status] ?? ['?', 'reset']
  return paint(style, mark, output)
}

/**
 * @param options.nowMs what open tasks have lasted until; `columns`: of the widest line
 * @returns lines, the first about the execution as a whole, then why nothing happens where it waits for a place
 */
export function drawRun(
  head: Head,
  tree: RunTree,
  options: { nowMs: number; columns: number; output: Output },
): string[] {
  const { flow, version, id, status, startedMs, note } = head
  const { output, nowMs, columns } = options
  const title = `${flow} v${version}  ${id}  ${status}  ${timeText(nowMs - startedMs)}`
  const first = `${markOf(status, output)} ${clip(title, columns - 2)}`
  const why = note === undefined ? [] : [`  ${clip(note, columns - 2)}`]
  return [first, ...why, ...drawTasks(tree.roots, '', options)]
}

function drawTasks(
  nodes: readonly TaskNode[],
  indent: string,
  options: Parameters<typeof drawRun>[2],
): string[] {
  const { columns, nowMs, output } = options
  return nodes.flatMap((node, index) => {
    const isLast = index === nodes.length - 1
    const lead = `${indent}${isLast ? '└─ ' : '├─ '}`
    const below = `${indent}${isLast ? '   ' : '│  '}`
    const room = columns - lead.length - 2
    const line = `${lead}${markOf(node.status, output)} ${clip(textOf(node, nowMs), room)}`
    const why = reasonOf(node)
    const reason = why === undefined ? [] : [`${below}  ${paint('red', clip(why, room), output)}`]
    return [line, ...reason, ...drawTasks(node.children, below, options)]
  })
}

function textOf(node: TaskNode, nowMs: number): string {
  const { name, summary, entries, faulted, took, attempt, status } = node
  const untilMs = node.open.size > 0 ? nowMs : node.endedMs
  return [
    name,
    summary,
    took && `→ ${took}`,
    entries > 1 && `×${entries}`,
    entries > 1 && faulted > 0 && `${faulted} faulted`,
    attempt > 1 && `attempt ${attempt}`,
    ['held', 'waiting'].includes(status) && status,
    status !== 'skipped' && timeText(untilMs - node.startedMs),
  ]
    .filter(Boolean)
    .join('  ')
}

/** An error is told where it came from, not once more by each task around it. */
function reasonOf(node: TaskNode): string | undefined {
  const { status, error } = node
  if (error === undefined || error === null || !['faulted', 'held'].includes(status)) return undefined
  if (node.children.some((child) => child.status === status)) return undefined
  return errorText(error)
}

/** `Title: detail`, on one line. */
export function errorText(error: unknown): string {
  const { title, detail, type } = error as Readonly<Record<string, unknown>>
  return [title ?? type, detail].filter(Boolean).join(': ').replaceAll(/\s+/g, ' ')
}

/** `12ms`, `1.5s`, `3m 20s`, `2h 5m`, `3d 1h`. */
export function timeText(durationMs: number): string {
  if (durationMs < 1_000) return `${Math.max(0, Math.round(durationMs))}ms`
  if (durationMs < 60_000) return `${(durationMs / 1_000).toFixed(1)}s`
  const seconds = Math.floor(durationMs / 1_000)
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(' ')
}

function clip(text: string, room: number): string {
  return text.length <= room ? text : `${text.slice(0, Math.max(0, room - 1))}…`
}

/** What happened to one entry into a task. */
export interface StepNews {
  readonly seq: number
  /** JSON pointer of the task. */
  readonly task: string
  readonly name: string
  readonly kind: string
  readonly summary: string
  readonly status: string
  /** RFC 3339. */
  readonly at: string
  readonly attempt?: number | undefined
  readonly took?: string | undefined
  readonly error?: unknown
}

export interface TaskNode {
  readonly name: string
  readonly summary: string
  readonly children: TaskNode[]
  /** Entries so far, and those of them that ended badly. */
  entries: number
  faulted: number
  /** Entries that have not ended, by their number. */
  readonly open: Map<number, string>
  status: string
  attempt: number
  took: string | undefined
  error: unknown
  readonly startedMs: number
  /** Of the last one that ended. */
  endedMs: number
}

const ENDED = new Set(['completed', 'faulted', 'skipped', 'cancelled'])
/** Of several entries, the one that most needs to be looked at. */
const URGENCY = ['held', 'waiting', 'running']

export class RunTree {
  readonly roots: TaskNode[] = []
  readonly #nodes = new Map<string, TaskNode>()
  readonly #seen = new Set<number>()
  #nowMs = 0

  /** The time of the newest event, in milliseconds since 1970. */
  get nowMs(): number {
    return this.#nowMs
  }

  take(news: StepNews): void {
    const atMs = Date.parse(news.at)
    this.#nowMs = Math.max(this.#nowMs, atMs)
    const node = this.#nodes.get(news.task) ?? this.#add(news, atMs)
    if (!this.#seen.has(news.seq)) node.entries += 1
    this.#seen.add(news.seq)
    if (ENDED.has(news.status)) {
      node.open.delete(news.seq)
      node.endedMs = Math.max(node.endedMs, atMs)
      if (news.status === 'faulted') node.faulted += 1
    } else node.open.set(news.seq, news.status)
    const open = new Set(node.open.values())
    node.status = URGENCY.find((status) => open.has(status)) ?? news.status
    node.attempt = news.attempt ?? 1
    node.took = news.took
    node.error = news.error
  }

  #add({ task, name, summary, status }: StepNews, atMs: number): TaskNode {
    const node = {
      name,
      summary: summary.startsWith(`${name}: `) ? summary.slice(name.length + 2) : summary,
      children: [],
      entries: 0,
      faulted: 0,
      open: new Map<number, string>(),
      status,
      attempt: 1,
      took: undefined,
      error: undefined,
      startedMs: atMs,
      endedMs: atMs,
    }
    this.#nodes.set(task, node)
    const siblings = this.#above(task)?.children ?? this.roots
    siblings.push(node)
    return node
  }

  /** The nearest task that this one stands in. */
  #above(pointer: string): TaskNode | undefined {
    for (let end = pointer.lastIndexOf('/'); end > 0; end = pointer.lastIndexOf('/', end - 1)) {
      const node = this.#nodes.get(pointer.slice(0, end))
      if (node !== undefined) return node
    }
    return undefined
  }
}

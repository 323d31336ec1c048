/** Draws an execution as a tree: for each task a mark of its status, its summary, its duration, and its error. */

import { clip, markOf, type Output, paint } from '../terminal.ts'

export interface Head {
  readonly flow: string
  readonly version: number
  readonly id: string
  readonly status: string
  readonly startedMs: number
  /** The reason why nothing happens. */
  readonly waitingFor?: string | undefined
}

/**
 * @param options.nowMs the time until which open tasks have lasted; `columns`: the width of the terminal
 * @returns lines: the execution as a whole, the reason why it waits, the tasks
 */
export function drawExecution(
  head: Head,
  tree: ExecutionTree,
  options: { nowMs: number; columns: number; output: Output },
): string[] {
  const { flow, version, id, status, startedMs, waitingFor } = head
  const { output, nowMs, columns } = options
  const title = `${flow} v${version}  ${id}  ${status}  ${timeText(nowMs - startedMs)}`
  const first = `${markOf(status, output)} ${clip(title, columns - 2)}`
  const reason = waitingFor === undefined ? [] : [`  ${clip(waitingFor, columns - 2)}`]
  return [first, ...reason, ...drawTasks(tree.roots, '', options)]
}

function drawTasks(
  nodes: readonly TaskNode[],
  indent: string,
  options: Parameters<typeof drawExecution>[2],
): string[] {
  const { columns, nowMs, output } = options
  return nodes.flatMap((node, index) => {
    const isLast = index === nodes.length - 1
    const prefix = `${indent}${isLast ? '└─ ' : '├─ '}`
    const below = `${indent}${isLast ? '   ' : '│  '}`
    const width = columns - prefix.length - 2
    const line = `${prefix}${markOf(node.status, output)} ${clip(textOf(node, nowMs), width)}`
    const reason = reasonOf(node)
    const error = reason === undefined ? [] : [`${below}  ${paint('red', clip(reason, width), output)}`]
    return [line, ...error, ...drawTasks(node.children, below, options)]
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

/** The error of a task, unless it comes from a task inside it. */
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

/** A change of one entry into a task. */
export interface StepUpdate {
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
  /** The number of entries, and of those that faulted. */
  entries: number
  faulted: number
  /** Entries that have not ended, by their number. */
  readonly open: Map<number, string>
  status: string
  attempt: number
  took: string | undefined
  error: unknown
  readonly startedMs: number
  /** Of the latest entry that has ended. */
  endedMs: number
}

const ENDED = new Set(['completed', 'faulted', 'skipped', 'cancelled'])
/** Statuses of open entries, the most urgent first. The task shows the most urgent one. */
const URGENCY = ['held', 'waiting', 'running']

export class ExecutionTree {
  readonly roots: TaskNode[] = []
  readonly #nodes = new Map<string, TaskNode>()
  readonly #seen = new Set<number>()
  #nowMs = 0

  /** The time of the newest event, in milliseconds since 1970. */
  get nowMs(): number {
    return this.#nowMs
  }

  apply(update: StepUpdate): void {
    const atMs = Date.parse(update.at)
    this.#nowMs = Math.max(this.#nowMs, atMs)
    const node = this.#nodes.get(update.task) ?? this.#add(update, atMs)
    if (!this.#seen.has(update.seq)) node.entries += 1
    this.#seen.add(update.seq)
    if (ENDED.has(update.status)) {
      node.open.delete(update.seq)
      node.endedMs = Math.max(node.endedMs, atMs)
      if (update.status === 'faulted') node.faulted += 1
    } else node.open.set(update.seq, update.status)
    const open = new Set(node.open.values())
    node.status = URGENCY.find((status) => open.has(status)) ?? update.status
    node.attempt = update.attempt ?? 1
    node.took = update.took
    node.error = update.error
  }

  #add({ task, name, summary, status }: StepUpdate, atMs: number): TaskNode {
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

  /** The nearest task that contains this one. */
  #above(pointer: string): TaskNode | undefined {
    for (let end = pointer.lastIndexOf('/'); end > 0; end = pointer.lastIndexOf('/', end - 1)) {
      const node = this.#nodes.get(pointer.slice(0, end))
      if (node !== undefined) return node
    }
    return undefined
  }
}

/** Knows how far an execution has come, task by task: one node a task, however often it was entered. */

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

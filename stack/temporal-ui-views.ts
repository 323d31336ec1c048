/**
 * Columns and saved views that the Temporal UI shows operators on a browser's first visit. The UI keeps both in the browser (its
 * stores `configurable-table-columns` and `saved-queries`), so a script that runs before it writes them there.
 */

/** Path of the script below the address of the UI. */
export const VIEWS_PATH = '/tenon-views.js'

const COLUMNS = ['Status', 'Type', 'FlowName', 'RunStatus', 'Start', 'End', 'Workflow ID']

/** In `{hour}` stands the time an hour ago; the visibility API of Temporal has no relative times. */
const VIEWS = {
  'Failed, last hour': 'ExecutionStatus="Failed" AND CloseTime>="{hour}"',
  Waiting: 'ExecutionStatus="Running" AND RunStatus IN ("waiting_for_approval", "waiting_for_event", "held")',
  'Queued or paused': 'ExecutionStatus="Running" AND RunStatus IN ("queued", "paused", "suspended")',
  'By tenant: complete the id': 'TenantId STARTS_WITH "ten_"',
}

/**
 * The script. A column or view that an operator has changed or removed is left alone; a view of the last hour follows the clock at
 * each visit.
 * @param namespace the Temporal namespace whose lists get them
 */
export function viewsScript(namespace: string): string {
  const views = Object.entries(VIEWS).map(([name, query]) => ({ id: `tenon: ${name}`, name, query }))
  const input = JSON.stringify({ namespace, columns: COLUMNS.map((label) => ({ label })), views })
  return `(${seed})(window.localStorage, ${input}, Date.now());\n`
}

interface View {
  readonly id: string
  readonly name: string
  readonly query: string
}

interface Seed {
  readonly namespace: string
  readonly columns: readonly object[]
  readonly views: readonly View[]
}

/** Runs in the browser: it may use nothing but its parameters. */
function seed(storage: Storage, { namespace, columns, views }: Seed, nowMs: number): void {
  const read = (key: string): Record<string, unknown> => JSON.parse(storage.getItem(key) ?? '{}') ?? {}
  const write = (key: string, value: unknown) =>
    storage.setItem(key, JSON.stringify({ ...read(key), [namespace]: value }))
  const hour = new Date(nowMs - 3_600_000).toISOString()
  const current = (view: View) => ({ ...view, query: view.query.replace('{hour}', hour), type: 'user' })
  const seen = 'tenon-views'
  try {
    const saved = (read('saved-workflow-queries')[namespace] ?? []) as readonly View[]
    const isFirst = read(seen)[namespace] === undefined
    if (isFirst && read('namespace-workflow-table-columns')[namespace] === undefined)
      write('namespace-workflow-table-columns', columns)
    const own = new Map(views.map((view) => [view.id, current(view)]))
    const kept = saved.map((view) => own.get(view.id) ?? view)
    const added = isFirst ? [...own.values()].filter(({ id }) => !saved.some((view) => view.id === id)) : []
    write('saved-workflow-queries', [...kept, ...added])
    write(seen, true)
  } catch {
    // Without storage, or with values of another version of the UI, it shows what it would have shown.
  }
}

/** What a run tells of itself, for those who watch it. */

/** What can happen to a run or to one of its steps. */
type RunHappening =
  | 'started'
  | 'waiting'
  | 'running'
  | 'suspended'
  | 'resumed'
  | 'retried'
  | 'held'
  | 'completed'
  | 'faulted'
  | 'skipped'
  | 'cancelled'

/** Something that happened in a run; `seq` counts through the whole run, from 1. */
export interface RunEventUpdate {
  readonly seq: number
  readonly at: string
  /** Of a step, by its `seq`; of the run as a whole where there is none. */
  readonly step?: number
  readonly what: RunHappening
  /** How often the step has begun, where that is more than once. */
  readonly attempt?: number
  readonly took?: string
  /** As JSON has it. */
  readonly error?: unknown
}

/** A run of a function: the shapes that its start, its workflow and its record share. */

import type { FunctionTrigger, Json, SecretNames, WorkCaller } from '../../../core/work.ts'

/** A request to start a run. */
export interface RunRequest {
  /** Id or name of the function, or `name@alias`. */
  readonly id: string
  /** By default the active version, or that of the alias. */
  readonly version?: number
  readonly alias?: string
  readonly kind?: 'call' | 'fetch'
  readonly input: Json
  /** Members of the second argument of the code. */
  readonly context?: Json
  readonly trigger: FunctionTrigger
  /** True if the caller does not wait: the record keeps input and result, and a failed run is a dead letter. */
  readonly isAsync: boolean
  /** Secrets of a calling execution, whose handles the input has. */
  readonly secrets?: SecretNames
  /** By default the actor of the scope. */
  readonly caller?: WorkCaller
  /** The id of the run, if it derives from its trigger: repeated starts are one run. */
  readonly runId?: string
}

/** All that triggers can start. */

import { flowTarget } from './flows/triggers/flow-target.ts'
import { functionTarget } from './functions/triggers/function-target.ts'
import type { TriggerTarget } from './runs/triggers/trigger.ts'

export const TRIGGER_TARGETS: readonly TriggerTarget[] = [flowTarget, functionTarget]

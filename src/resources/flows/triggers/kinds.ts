/** Every kind of trigger there is. */

import { schedules } from './schedules.ts'
import type { TriggerKind } from './trigger.ts'

export const TRIGGER_KINDS: readonly TriggerKind[] = [schedules]

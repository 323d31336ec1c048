/** Every kind of trigger there is. */

import { events } from './events.ts'
import { schedules } from './schedules.ts'
import type { TriggerKind } from './trigger.ts'
import { webhooks } from './webhooks.ts'

export const DECLARABLE: readonly TriggerKind[] = [schedules, webhooks, events]

/** Triggers of an archive: they have ids of the import, and start nothing until somebody resumes them. */

import type { DeclaredTrigger } from '../runs/triggers/trigger.ts'
import type { Target } from './part.ts'

/** @param owner what declares them, for people @param targetId its id in the archive */
export const pausedTriggers =
  ({ idFor, missing }: Target, owner: string, targetId: string) =>
  (trigger: DeclaredTrigger): DeclaredTrigger => {
    missing(`trigger ${trigger.key} of ${owner}: it is paused; resume it`)
    return { ...trigger, id: idFor('trg', `${targetId}/${trigger.key}`), paused: true }
  }

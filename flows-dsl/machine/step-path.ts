/**
 * Knows how the places of a run are named: by the tasks and lists around a task, each counted among those of its name
 * that the same frame has begun. So an entry has the same place in every run that takes the same way, whatever ends
 * first, and in another version of the flow, wherever in its list the task stands there.
 */

import { unescaped } from '../json.ts'
import type { Frame } from './state.ts'

/** Of what can be begun several times, which effects are not; `/` before it. */
export function nameOf(frame: {
  readonly is: Frame['is']
  readonly list?: string
  readonly pointer?: string
}): string | undefined {
  const { is, list, pointer = '' } = frame
  if (is === 'list') return `/${list}`
  return is === 'task' ? pointer.slice(pointer.lastIndexOf('/')) : undefined
}

/**
 * @param around the task, and before it all frames around it, the outermost first
 * @returns such as `/do/each/do~x2/book`: the third time that `each` has run its list. No name has `~x` in it, since
 *   names stand here as in JSON pointers.
 */
export function placeOf(around: readonly Frame[]): string {
  return around
    .map((frame) => `${nameOf(frame) ?? ''}${frame.nth === undefined ? '' : `~x${frame.nth}`}`)
    .join('')
}

/** @param around as of {@link placeOf}, without the task itself @returns such as `each[2] / both` */
export function pathOf(around: readonly Frame[]): string {
  const names: string[] = []
  for (const frame of around) {
    const time = frame.nth === undefined ? '' : `[${frame.nth}]`
    if (frame.is === 'task') names.push(unescaped(nameOf(frame)?.slice(1) ?? ''))
    if (names.length > 0) names.push(`${names.pop()}${time}`)
  }
  return names.join(' / ')
}

/** Where tasks stand that a task begins again: all but the first time that it runs its list. */
export function againBelow(place: string, list: string): string {
  return `${place}/${list}~x`
}

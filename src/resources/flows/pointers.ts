/** Pointers of tasks without the places in their lists: what is the same task in another version of a flow. */

/** @returns names of lists and tasks in turn: `/do/1/ship/try/0/send` is `['do', 'ship', 'try', 'send']` */
export function namesOf(pointer: string): string[] {
  const names: string[] = []
  let isName = false
  for (const part of pointer.split('/').slice(1)) {
    if (isName || !/^\d+$/.test(part)) {
      names.push(part)
      isName = false
    } else isName = true
  }
  return names
}

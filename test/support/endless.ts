/** Workflows of which some never end their first task; bundled by the test that asks for them. */

import { CancellationScope, condition } from '@temporalio/workflow'

function forEver(): never {
  for (;;);
}

export async function atOnce(): Promise<void> {
  forEver()
}

/** In what follows an `await`: between two calls into the sandbox there is nobody who could throw. */
export async function inPromises(): Promise<void> {
  await Promise.resolve()
  forEver()
}

/** In what the SDK asks for after all else, and again as often as it is asked. */
export async function inConditions(): Promise<void> {
  await condition(forEver)
}

/** Each turn is short, and brings the next one. */
export async function turnByTurn(): Promise<void> {
  for (;;) await Promise.resolve()
}

/** @returns whether what follows an `await` still belongs to the scope that it is in */
export async function ends(): Promise<boolean> {
  return CancellationScope.nonCancellable(async () => {
    const scope = CancellationScope.current()
    await Promise.resolve()
    return CancellationScope.current() === scope
  })
}

/** Knows when all is done that something has brought about within an activation. */

/** Longer than the chain of promises from an answer to all that the run does because of it. */
const TURNS = 128

/** @param answers how many, one after the other */
export async function settled(answers = 1): Promise<void> {
  for (let n = 0; n < answers * TURNS; n++) await Promise.resolve()
}

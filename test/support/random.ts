/** Numbers that a seed repeats, for tests that choose at random. */

/** A whole number from 0, below `max` (at most 2³²). */
export type Random = (max: number) => number

/** @returns a generator of numbers (mulberry32), the same ones for the same seed */
export function randomOf(seed: number): Random {
  let state = seed
  return (max) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % max
  }
}

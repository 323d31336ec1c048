/**
 * Number of repetitions of a test: enough to show the property in the suite, more in `npm run test:soak`.
 */

const isSoak = process.env['TENON_SOAK'] !== undefined

/** @param usual number of repetitions, or size, in the suite @param soak the same in a soak */
export const repeated = (usual: number, soak: number): number => (isSoak ? soak : usual)

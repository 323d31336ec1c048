/** The least that a workflow can be: what Temporal itself costs. */

export async function bare(): Promise<void> {}

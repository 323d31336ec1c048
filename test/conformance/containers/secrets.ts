/** Which services of docker-compose.yml get which secrets: those without which they cannot do their work. */

export const SECRETS: Readonly<Record<string, readonly string[]>> = {
  TENON_POSTGRES_SECRET: ['migrate', 'postgres', 'temporal-databases'],
  TENON_TEMPORAL_SECRET: ['temporal', 'temporal-databases', 'temporal-schema'],
  TENON_APP_SECRET: ['api', 'migrate', 'worker'],
  TENON_BUILDER_SECRET: ['migrate', 'worker'],
  TENON_OPERATOR_SECRET: ['api', 'demo'],
  TENON_S3_SECRET: ['api', 'seaweedfs', 'worker'],
  TENON_S3_SIGNING_SECRET: ['seaweedfs'],
  TENON_VALKEY_SECRET: ['api', 'valkey', 'worker'],
  TENON_MASTER_KEY: ['api', 'migrate', 'worker'],
  GATEWAY_SECRET: ['api'],
}

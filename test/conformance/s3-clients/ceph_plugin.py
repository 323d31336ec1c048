"""A plugin of pytest that runs Ceph's s3-tests in the one bucket of a workspace: a new bucket is that bucket, emptied."""

import os
from types import SimpleNamespace

import boto3
import pytest
import s3tests.functional as suite

BUCKET = os.environ['BUCKET']
ENDPOINT = os.environ['AWS_ENDPOINT_URL']

if boto3.DEFAULT_SESSION is None:
    boto3.setup_default_session()


def _answered(status):
    """A reply that is not requested: buckets are created and deleted by an admin of the platform."""

    def answer(params, **_):
        if params['url'].rstrip('/').endswith('/' + BUCKET):
            headers = {'ResponseMetadata': {'HTTPStatusCode': status, 'HTTPHeaders': {}, 'RetryAttempts': 0}}
            return SimpleNamespace(status_code=status, headers={}), headers
        return None

    return answer


boto3.DEFAULT_SESSION.events.register('before-call.s3.CreateBucket', _answered(200))
boto3.DEFAULT_SESSION.events.register('before-call.s3.DeleteBucket', _answered(204))

_buckets = 0


def _new_bucket_name():
    global _buckets
    _buckets += 1
    if _buckets > 1:
        pytest.skip('needs several buckets')
    return BUCKET


def _empty():
    global _buckets
    _buckets = 0
    client = suite.get_client()
    for upload in client.list_multipart_uploads(Bucket=BUCKET).get('Uploads', []):
        client.abort_multipart_upload(Bucket=BUCKET, Key=upload['Key'], UploadId=upload['UploadId'])
    while True:
        found = client.list_objects_v2(Bucket=BUCKET).get('Contents', [])
        if not found:
            return
        client.delete_objects(Bucket=BUCKET, Delete={'Objects': [{'Key': one['Key']} for one in found], 'Quiet': True})


_configure = suite.configure


def _configure_endpoint():
    _configure()
    # The suite knows a host and a port, and the S3 API is below a path.
    suite.config.default_endpoint = ENDPOINT
    suite.config.main_access_key = os.environ['AWS_ACCESS_KEY_ID']
    suite.config.main_secret_key = os.environ['AWS_SECRET_ACCESS_KEY']


suite.configure = _configure_endpoint
suite.setup = _empty
suite.teardown = _empty
suite.get_new_bucket_name = _new_bucket_name

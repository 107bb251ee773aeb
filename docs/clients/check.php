<?php
// Ask Tidegate before doing something: php check.php SUBJECT [REGION]

/** The decision: an array with `admitted`, and `retry_after` in seconds on a denial. */
function check(string $policy, string $subject, ?string $region = null, int $cost = 1): array
{
    $tidegate = getenv('TIDEGATE_URL') ?: 'http://127.0.0.1:8080';
    $question = ['policy' => $policy, 'subject' => $subject, 'region' => $region, 'cost' => $cost];
    $body = file_get_contents("$tidegate/v1/check", false, stream_context_create(['http' => [
        'method' => 'POST',
        'header' => 'Content-Type: application/json',
        'content' => json_encode($question),
        'timeout' => 1,
        'ignore_errors' => true, // a denial (429, 503) has a body too
    ]]));
    $answer = $body === false ? null : json_decode($body, true);
    if (!isset($answer['admitted'])) {
        throw new RuntimeException($answer['detail'] ?? 'Tidegate did not answer');
    }
    return $answer;
}

$decision = check('video_top', $argv[1], $argv[2] ?? null);
if (!$decision['admitted']) {
    fwrite(STDERR, 'denied, come again in ' . ($decision['retry_after'] ?? '?') . " s\n");
    exit(1);
}
echo "admitted\n";

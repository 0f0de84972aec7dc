"""Parts of OpenAI's baselines."""
